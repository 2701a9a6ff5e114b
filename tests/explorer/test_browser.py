"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explorer.launching import Launched, serving, untrained
from visr import api, config
from visr.config import presets
from visr.explorer import running_explorers, serve
from visr.storage.records.task import Task
from visr.storage.tables import append_rows

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="NO CHROMIUM: browser tests of the explorer DO NOT RUN; try `make browser`",
)
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="NO PLAYWRIGHT: browser tests DO NOT RUN"
)
expect = sync_api.expect
expect.set_options(timeout=60_000)

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def console() -> list[str]:
    """What the browser complained of; tests end with none of it."""
    return []


@pytest.fixture
def opened(browser: Any, launched: Launched, console: list[str]) -> Iterator[Open]:
    """Open the page in a fresh profile; no other host may be asked, nothing may go wrong in silence."""
    contexts = []
    asked: set[str] = set()

    def open_page(url: str = launched.server.url, context: Any = None, **options: Any) -> Any:
        if context is None:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            context.set_default_timeout(60_000)
            contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: console.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: console.append(str(error)))
        page.on("request", lambda request: asked.add(request.url.split("/")[2]))
        page.goto(url)
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert console == []
    assert {host.split(":")[0] for host in asked if host} <= {"127.0.0.1"}


def stroke(page: Any, *cells: tuple[int, int]) -> None:
    """Drag the mouse over cells (row, column) of the painted map."""
    board = page.locator("#map-reward")
    box = board.bounding_box()
    places = [
        (box["x"] + (col + 0.5) * box["width"] / 10, box["y"] + (row + 0.5) * box["height"] / 10)
        for row, col in cells
    ]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def settled(page: Any, old: str) -> str:
    """The w that the page shows once it differs from the old one."""
    plot = page.locator("#paint .task-w")
    expect(plot).not_to_have_attribute("aria-label", old)
    page.wait_for_timeout(200)
    return plot.get_attribute("aria-label")


def shown_w(page: Any) -> str:
    expect(page.locator("#fraction")).not_to_have_text("–")
    return page.locator("#paint .task-w").get_attribute("aria-label")


def copied(page: Any) -> dict[str, Any]:
    """What the program on the task's card leaves behind."""
    scope: dict[str, Any] = {}
    exec(page.locator("#paint .task code").text_content(), scope)
    return scope


def test_a_painted_reward_is_answered_as_python_would(opened: Open, launched: Launched):
    page = opened()
    first = shown_w(page)
    page.click("#clear")
    expect(page.locator("#fraction")).to_have_text("–")
    stroke(page, (2, 2), (2, 6))
    settled(page, first)
    page.click("text=− penalty")
    page.click("[name=size][value='2'] + span")
    before = page.locator("#paint .task-w").get_attribute("aria-label")
    stroke(page, (8, 8))
    settled(page, before)

    reward = np.zeros((10, 10))
    reward[2, 2:7], reward[7:9, 7:9] = 1, -1
    run = api.load(launched.server.explored.run.path)
    task = run.infer(reward)
    worth = run.evaluate_exactly(task)
    said = copied(page)
    np.testing.assert_array_equal(said["reward"], reward)
    np.testing.assert_array_equal(said["task"].w, task.w)
    expect(page.locator("#r-squared")).to_have_text(f"{task.r_squared:.2f}".replace("-", "−"))
    fraction = f"{worth.fraction_of_optimal:.2f}".replace("-", "−")
    expect(page.locator("#fraction")).to_have_text(fraction)
    assert int(page.locator("#latency").text_content().split()[0]) > 0

    before = page.locator("#paint .task-w").get_attribute("aria-label")
    page.click("#undo")
    settled(page, before)
    assert copied(page)["reward"].min() == 0


def test_a_walk_starts_at_the_clicked_cell_and_moves(opened: Open):
    page = opened()
    shown_w(page)
    page.click("#preset-goal")
    page.wait_for_timeout(300)
    box = page.locator("#map-value").bounding_box()
    for row, col in ((0, 0), (9, 9), (0, 9), (9, 0), (5, 5)):  # one of them is no dead end
        place = {"x": (col + 0.5) * box["width"] / 10, "y": (row + 0.5) * box["height"] / 10}
        page.locator("#map-value").click(position=place)
        page.wait_for_timeout(500)
        if "steps" in page.locator("#walk-note").text_content():
            break
    expect(page.locator("#walk-note")).to_have_text(
        re.compile(rf"Walking from row {row}, column {col}: now at row \d, column \d, \d+ steps")
    )


def test_the_keyboard_alone_is_enough(opened: Open):
    page = opened()
    old = shown_w(page)
    page.keyboard.press("c")
    expect(page.locator("#fraction")).to_have_text("–")
    page.locator("#map-reward").focus()
    for key in ("ArrowUp", "ArrowUp", "Space", "ArrowRight"):  # the first shows the cursor
        page.keyboard.press(key)
    page.keyboard.press("n")
    page.keyboard.press("Space")
    settled(page, old)
    reward = copied(page)["reward"]
    assert (reward[4, 5], reward[4, 6], np.abs(reward).sum()) == (1, -1, 2)
    page.keyboard.press("Control+z")
    expect(page.locator("#paint .task code")).not_to_contain_text("-1.0")
    page.keyboard.press("2")
    expect(page.locator("#watch")).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#tab-watch").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-atlas")).to_be_focused()
    expect(page.locator("#atlas")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_overflows_at_any_width(opened: Open, width: int):
    page = opened(viewport={"width": 700, "height": 800})
    shown_w(page)
    page.set_viewport_size({"width": width, "height": 800})
    for view in ("paint", "watch", "atlas", "training"):
        page.click(f"#tab-{view}")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("#tab-paint")
    box = page.locator("#map-reward").bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)
    assert box["width"] > (300 if width == 390 else 250)


def test_dark_follows_the_system_until_one_chooses(opened: Open):
    page = opened(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 22, 25)"
    page.click("#theme")  # light
    assert page.evaluate(ground) == "rgb(246, 246, 243)"
    page.reload()
    assert page.evaluate(ground) == "rgb(246, 246, 243)"
    page.emulate_media(color_scheme="light")
    page.click("#theme")  # dark
    assert page.evaluate(ground) == "rgb(19, 22, 25)"


def test_watching_plays_steps_and_pauses(opened: Open):
    page = opened()
    page.click("#tab-watch")
    expect(page.locator("#screen")).to_have_attribute("aria-label", re.compile("step 0"))
    page.click("#step")
    expect(page.locator("#now-step")).to_have_text("1")
    page.click("#play")
    expect(page.locator("#now-step")).to_have_text(re.compile(r"\d\d"))
    page.click("#play")
    page.wait_for_timeout(300)
    stands = page.locator("#now-step").text_content()
    page.wait_for_timeout(400)
    assert page.locator("#now-step").text_content() == stands
    page.keyboard.press("g")
    page.fill("#seed", "5")
    page.click("#restart")
    expect(page.locator("#now-step")).to_have_text("0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#now-step")).to_have_text("1")
    page.click("#mark-bad")
    page.click("text=Infer a task from 2 marks")
    expect(page.locator("#watch .task-name")).to_have_text("1 good and 1 bad frames")
    page.click("#restart")
    expect(page.locator("#now-step")).to_have_text("0")


def test_tasks_are_chosen_mixed_saved_and_loaded(opened: Open, launched: Launched):
    page = opened()
    page.click("#tab-watch")
    page.click("#next-skill")
    expect(page.locator("#watch .task-name")).to_have_text("skill:1")
    page.click("text=A mixture of two")
    page.click("text=Take this task as A")
    page.click("text=An expression")
    page.fill("#expression", "row + col")
    page.keyboard.press("Enter")
    expect(page.locator("#watch .task-name")).to_have_text("row + col")
    page.click("text=A mixture of two")
    page.click("text=Take this task as B")
    expect(page.locator("#watch .task-name")).to_have_text("0.5 skill:1 + 0.5 (row + col)")
    page.fill("#watch .save-name", "half and half")
    page.click("#watch .save button")
    expect(page.locator("#watch .said")).to_contain_text("half-and-half.json")
    saved = Task.load(launched.server.explored.run.directory.task("half-and-half"))
    assert saved.name == "0.5 skill:1 + 0.5 (row + col)"
    page.click("text=A saved task")
    page.select_option("#saved-name", "half-and-half")
    page.click("#chooser >> text=Load")
    expect(page.locator("#watch .task-method")).to_have_text("mixed of 2 tasks")
    page.click("text=Sliders")
    page.locator("#sliders input").first.fill("1")
    expect(page.locator("#watch .task-name")).to_have_text("by hand")


def test_the_asked_return_is_shown_and_the_painted_reward_drawn(opened: Open):
    page = opened()
    shown_w(page)
    old = shown_w(page)
    page.fill("#preset-text", "row > 0 or col > 0")  # 1 in every cell but one
    page.keyboard.press("Enter")
    settled(page, old)
    page.click("#paint .to-watch")
    expect(page.locator("#now-words")).to_have_text(
        "Asked return: the sum of the asked reward painted."
    )
    expect(page.locator("#now-asked")).to_have_text(re.compile(r"[1-9]"))
    expect(page.locator("#now-environment")).to_be_hidden()  # the grid has no reward of its own
    green = page.evaluate(
        """() => { const canvas = document.getElementById("screen");
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < data.length; i += 4) count += data[i + 1] > data[i] + 30;
        return count; }"""
    )
    assert green >= 97  # of 100 cells: not the agent's, not the corner


def test_a_goal_is_clicked_written_or_taken_from_the_screen(opened: Open, console: list[str]):
    page = opened()
    page.click("#tab-watch")
    expect(page.locator("#now-step")).to_have_text("0")
    page.click("#chooser >> text=A goal")
    box = page.locator("#screen").bounding_box()
    page.locator("#screen").click(position={"x": 0.35 * box["width"], "y": 0.25 * box["height"]})
    expect(page.locator("#watch .task-name")).to_have_text("goal 2,3")
    expect(page.locator("#watch .eyebrow")).to_have_text("A goal")
    expect(page.locator("#watch .words li")).to_have_count(1)
    page.fill("#goal", "9,0")
    page.keyboard.press("Enter")
    expect(page.locator("#watch .task-name")).to_have_text("goal 9,0")
    page.click("#goal-here")
    expect(page.locator("#watch code")).to_contain_text("run.infer(goal=np.array(")
    page.fill("#goal", "somewhere")
    page.keyboard.press("Enter")
    expect(page.locator("#watch-error")).to_contain_text("Cannot read the goal")
    page.click("#step")
    expect(page.locator("#now-step")).to_have_text("1")
    expect(page.locator("#watch-error")).to_be_visible()  # a frame does not wipe it away
    assert [words for words in console if "400" not in words] == []
    console.clear()


def test_a_driven_episode_is_a_demonstration(opened: Open, launched: Launched):
    page = opened()
    page.click("#tab-watch")
    expect(page.locator("#now-step")).to_have_text("0")
    page.click("#chooser >> text=A demonstration")
    for number in range(1, 5):
        page.click("#drive >> text=right")
        expect(page.locator("#now-step")).to_have_text(str(number))
    page.click("#demonstrate")
    expect(page.locator("#watch .task-name")).to_have_text("4 watched steps")
    expect(page.locator("#watch .words")).to_contain_text("agree with the demonstrated ones")
    page.fill("#watch .save-name", "to the right")
    page.click("#watch .save button")
    expect(page.locator("#watch .said")).to_contain_text("to-the-right.json")
    saved = Task.load(launched.server.explored.run.directory.task("to-the-right"))
    assert saved.prompt is not None
    assert saved.prompt.kind == "demonstration"


def test_the_page_asks_which_of_two_is_better_and_its_task_follows(opened: Open):
    page = opened()
    page.click("#tab-watch")
    page.click("#chooser >> text=Preferences")
    page.click("#ask-me")
    expect(page.locator("#question .path")).to_have_count(2)
    expect(page.locator("#answer-count")).to_have_text("no answers yet")
    first = page.locator("#question .path").first.get_attribute("aria-label")
    page.click("#prefer-a")
    expect(page.locator("#watch .task-name")).to_have_text("1 preference")
    expect(page.locator("#answer-count")).to_contain_text("1 answer;")
    assert page.locator("#question .path").first.get_attribute("aria-label") != first
    page.click("#as-good")
    expect(page.locator("#watch .task-name")).to_have_text("2 preferences")
    page.click("#skip-question")
    page.click("#prefer-b")
    expect(page.locator("#watch .task-name")).to_have_text("3 preferences")
    expect(page.locator("#watch .words")).to_contain_text("of 2 answers")
    expect(page.locator("#watch code")).to_contain_text("run.infer(preferences=preferences)")
    expect(page.locator("#answer-count")).to_contain_text("3 answers;")
    page.click("text=Forget the answers")
    expect(page.locator("#question")).to_be_hidden()


def test_two_films_are_shown_where_the_environment_draws_itself(opened: Open, tmp_path: Path):
    env = "CartPole-v1"
    settings = config.replace(presets.for_environment(env, "visr"), env=env)
    with serving(untrained(tmp_path / "cart", settings)) as cart:
        page = opened(cart.server.url)
        page.click("#tab-watch")
        page.click("#chooser >> text=Preferences")
        page.click("#ask-me")
        expect(page.locator("#question .film")).to_have_count(2)
        film = page.locator("#question .film").first
        box = film.bounding_box()
        assert box["width"] > 100
        assert 1 < box["width"] / box["height"] < 2  # CartPole is drawn 600 x 400
        shown = film.evaluate("film => getComputedStyle(film).backgroundImage")
        assert shown.startswith('url("data:image/png')
        page.click("#prefer-b")
        expect(page.locator("#watch .task-name")).to_have_text("1 preference")
        expect(page.locator("#answer-count")).to_contain_text("1 answer;")
        expect(page.locator("#question .film")).to_have_count(2)
        assert film.evaluate("film => getComputedStyle(film).backgroundImage") != shown
        page.close()  # before its server: it would ask again


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_a_task_is_saved_while_its_python_is_open(opened: Open, width: int):
    page = opened(viewport={"width": width, "height": 800})
    shown_w(page)
    page.click("#paint .task summary")
    page.fill("#paint .save-name", f"open at {width}")
    page.click("#paint .save button", timeout=10_000)
    expect(page.locator("#paint .said")).to_contain_text(f"open-at-{width}.json")


def test_clear_leaves_nothing_of_the_reward(opened: Open):
    page = opened()
    shown_w(page)
    page.fill("#preset-text", "row >")
    page.locator("#map-value").click(position={"x": 20, "y": 20})
    page.click("#clear")
    for tile in ("#fraction", "#r-squared", "#value", "#latency"):
        expect(page.locator(tile)).to_have_text("–")
    expect(page.locator("#preset-text")).to_have_value("")
    expect(page.locator("#walk-note")).to_have_text("Click the value map to walk from there.")
    expect(page.locator("#paint .task-name")).to_have_text("none yet")
    expect(page.locator("#paint .task code")).to_have_text("")
    expect(page.locator("#paint .save button")).to_be_disabled()
    expect(page.locator("#value-high")).to_have_text("high")
    page.click("#undo")
    expect(page.locator("#paint .task-name")).to_have_text("painted")


def test_copied_python_reaches_the_clipboard(opened: Open):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    shown_w(page)
    page.click("#paint .copy")
    expect(page.locator("#paint .said")).to_have_text("Copied.")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == page.locator("#paint .task code").text_content()


def test_the_atlas_is_made_and_exported(opened: Open, tmp_path: Path, browser: Any):
    page = opened()
    page.click("#tab-atlas")
    page.fill("#atlas-count", "3")
    page.click("#atlas-make")
    expect(page.locator("#atlas-export")).to_be_enabled()
    expect(page.locator("#atlas-grid .skill")).to_have_count(3)
    with page.expect_download() as download:
        page.click("#atlas-export")
    file = tmp_path / "atlas.html"
    download.value.save_as(file)
    exclusive = browser.new_context(offline=True).new_page()
    exclusive.goto(file.as_uri())
    expect(exclusive.locator(".skill")).to_have_count(3)
    film = exclusive.locator(".film").first
    assert film.bounding_box()["height"] > 50
    exclusive.context.close()
    page.click("#atlas-grid .skill >> nth=1 >> text=Watch")
    expect(page.locator("#watch .task-name")).to_have_text("by hand")
    expect(page.locator("#now-step")).to_have_text(re.compile("[1-9]"))


def test_a_second_tab_needs_no_token_and_has_its_own_session(opened: Open, launched: Launched):
    page = opened()
    page.click("#tab-watch")
    page.click("#play")
    other = opened(launched.server.url.partition("?")[0] + "#watch", context=page.context)
    expect(other.locator("#screen")).to_have_attribute("aria-label", re.compile("step 0"))
    expect(page.locator("#now-step")).to_have_text(re.compile(r"\d\d"))
    expect(other.locator("#now-step")).to_have_text("0")
    assert "token" not in page.url
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert launched.server.token not in page.evaluate(
        "document.cookie + JSON.stringify({...localStorage})"
    )


def test_a_page_in_a_private_file_leads_to_the_explorer(
    browser: Any, launched: Launched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    server, context = launched.server, browser.new_context()
    with running_explorers.registered(running_explorers.Launch(1, server.url, "run")) as file:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_url(f"http://127.0.0.1:{server.port}/**")
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
        assert "token" not in page.url
    context.close()


def test_curves_follow_a_run_that_is_training(opened: Open, launched: Launched):
    page = opened()
    page.click("#tab-training")
    chart = page.locator("canvas[aria-label='Intrinsic reward']")
    run = launched.server.explored.run.directory
    lines = run.metrics.read_text().splitlines()
    expect(chart).to_have_attribute("data-points", str(len(lines) - 1))
    columns = lines[0].split(",")
    append_rows(run.metrics, columns, [[99_999, *[1] * (len(columns) - 1)]])
    expect(chart).to_have_attribute("data-points", str(len(lines)))


def test_a_restarted_server_is_found_again(
    browser: Any, run_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(serve.TOKEN_VARIABLE, "a-token-that-outlives-a-launch")
    context = browser.new_context()
    page = context.new_page()
    with serving(run_path) as first:
        port = first.server.port
        page.goto(first.server.url)
        shown_w(page)
        page.click("#tab-watch")
        page.click("#play")
        expect(page.locator("#now-step")).to_have_text(re.compile("[1-9]"))
    expect(page.locator("#connection")).to_have_attribute("data-state", "connecting")
    expect(page.locator("#notice")).to_be_visible()
    with serving(run_path, port):
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
        expect(page.locator("#notice")).to_be_hidden()
        page.wait_for_timeout(1500)
        before = page.locator("#now-step").text_content()
        expect(page.locator("#now-step")).not_to_have_text(before)  # it plays on
        page.fill("#watch .save-name", "after the restart")
        page.click("#watch .save button")
        expect(page.locator("#watch .said")).to_contain_text("after-the-restart.json")
    monkeypatch.delenv(serve.TOKEN_VARIABLE)
    with serving(run_path, port) as third:  # with a token of its own
        expect(page.locator("#notice")).to_contain_text("open the address")
        context.new_page().goto(third.server.url)
        expect(page.locator("#connection")).to_have_attribute("data-state", "connected")
    context.close()


def test_invalid_input_shows_an_error_on_the_page(opened: Open, console: list[str]):
    page = opened()
    shown_w(page)
    page.fill("#preset-text", "row >")
    page.click("text=Paint it")
    expect(page.locator("#paint-error")).to_contain_text("Cannot read the expression")
    assert [words for words in console if "400" not in words] == []
    console.clear()  # a browser notes every refusal as an error
    expect(page.locator("#fraction")).not_to_have_text("–")
