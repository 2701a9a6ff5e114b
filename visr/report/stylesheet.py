"""The page's typography: system fonts, one column, light and dark, screen and paper."""

CSS = """
:root {
  color-scheme: light dark;
  --ground: #f6f6f3; --card: #ffffff; --ink: #20262c; --muted: #5d6771; --rule: #dfe2e0;
  --accent: #0065a0; --code: #eeeeea; --track: #e7e9e8; --figure: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #15181b; --card: #1d2125; --ink: #dfe3e6; --muted: #9aa4ad; --rule: #32383e;
    --accent: #6cb8ea; --code: #262b30; --track: #343b41; --figure: #f4f4f2;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 48rem; margin: 0 auto; padding: 3.5rem 1.25rem 5rem; }
h1, h2, h3 { line-height: 1.2; letter-spacing: -0.01em; text-wrap: balance; overflow-wrap: anywhere; }
h1 { font-size: 2rem; margin: 0.2rem 0 0.6rem; }
h2 { font-size: 1.3rem; margin: 3.5rem 0 0.6rem; }
h3 { font-size: 1.05rem; margin: 2.2rem 0 0.4rem; }
p { margin: 0 0 0.9rem; }
a { color: var(--accent); text-underline-offset: 0.15em; }
.eyebrow { color: var(--muted); font-size: 0.85rem; margin: 0; }
.lead { font-size: 1.08rem; }
.muted, figcaption, caption { color: var(--muted); font-size: 0.9rem; }
code, pre { font: 0.86em/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { background: var(--code); border-radius: 4px; padding: 0.1em 0.35em; overflow-wrap: anywhere; }
pre { background: var(--code); border-radius: 8px; padding: 0.9rem 1rem; margin: 0 0 0.9rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { background: none; padding: 0; font-size: 1em; }
.line { display: block; padding-left: 2ch; text-indent: -2ch; }
.line span { display: inline-block; text-indent: 0; max-width: 100%; }
.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: 0.9rem; margin: 1.6rem 0 0.7rem; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 0.9rem 1rem 1rem; }
.tile h2 { font-size: 0.95rem; margin: 0; letter-spacing: 0; }
.tile p { margin: 0; font-size: 0.82rem; line-height: 1.45; color: var(--muted); }
.tile .figure { font-size: 2.1rem; line-height: 1.25; font-weight: 600; color: var(--ink);
  font-variant-numeric: tabular-nums; letter-spacing: -0.02em; }
.tile dl { margin: 0; font-size: 0.82rem; line-height: 1.5; color: var(--muted);
  font-variant-numeric: tabular-nums; }
.tile dl div { display: flex; justify-content: space-between; }
.tile dd { margin: 0; }
.meter { height: 6px; border-radius: 3px; background: var(--track); margin: 0.3rem 0 0.6rem;
  overflow: hidden; }
.meter span { display: block; height: 100%; border-radius: 3px; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.9rem 1.25rem;
  margin: 1.6rem 0 0; padding: 1rem 0; border: solid var(--rule); border-width: 1px 0; }
dl.facts dt { color: var(--muted); font-size: 0.8rem; }
dl.facts dd { margin: 0; font-size: 0.95rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
figure { margin: 1rem 0 0; }
.frame { background: var(--figure); border: 1px solid var(--rule); border-radius: 10px; padding: 1.1rem;
  overflow-x: auto; }
.frame img { display: block; margin: 0 auto; max-width: 100%; height: auto; mix-blend-mode: multiply; }
figcaption { margin: 0.6rem 0.1rem 0; }
.note { border-left: 3px solid var(--accent); padding: 0.1rem 0 0.1rem 0.9rem; margin: 0.9rem 0; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: 0.4rem; }
th, td { text-align: left; padding: 0.42rem 0.9rem 0.42rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: baseline; overflow-wrap: anywhere; }
th { font-weight: 600; }
thead th { color: var(--muted); font-weight: 500; font-size: 0.82rem; }
.number { text-align: right; padding-right: 0; padding-left: 0.9rem; white-space: nowrap; }
details { border: 1px solid var(--rule); border-radius: 10px; background: var(--card); padding: 0.8rem 1rem; }
summary { cursor: pointer; font-weight: 600; }
details h3 { margin-top: 1.4rem; }
details table { table-layout: fixed; }
footer { margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--muted);
  font-size: 0.85rem; }
@media (max-width: 40rem) {
  main { padding: 2rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  .tiles { grid-template-columns: 1fr; gap: 0.6rem; }
  .frame { padding: 0.7rem; }
  section > .scroll :is(th, td):not(.number) { min-width: 7.5rem; }
  .frame.wide img { max-width: none; width: 38rem; margin: 0; }
}
@media print {
  :root { --ground: #fff; --card: #fff; --ink: #000; --muted: #444; --rule: #ccc; --code: #f4f4f4;
    --figure: #fff; --accent: #000; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  .tiles { grid-template-columns: repeat(3, 1fr); }
  figure, .tile, p, tr, .line, section > .scroll { break-inside: avoid; }
  h2, h3, section > p { break-after: avoid; }
  h2 { margin-top: 1.6rem; }
  footer { margin-top: 1.6rem; }
  .frame img { max-height: 15cm; width: auto; }
  .meter, .meter span { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
