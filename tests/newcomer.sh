#!/usr/bin/env bash
# Somebody new: a fresh user with an empty home, no compiler on PATH, no git identity, nothing in the environment.
# Clones this repository and runs the README's two commands. Needs root, to make the user:
#     tests/newcomer.sh [NAME]        (as the user NAME, by default `newcomer`; made anew each time)
set -euo pipefail
name=${1:-newcomer}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

pkill -u "$name" 2>/dev/null || true
userdel --remove "$name" 2>/dev/null || true
useradd --create-home --shell /bin/bash "$name"
home=$(getent passwd "$name" | cut -d: -f6)

tools=$home/tools # all of /usr/bin but what compiles
mkdir "$tools"
for tool in /usr/bin/*; do
  case $(basename "$tool") in
    *gcc* | *g++* | cc | c++ | c89* | c99* | *clang* | cpp* | ld | ld.* | as) ;;
    *) ln -s "$tool" "$tools/" ;;
  esac
done

bundle=$home/visr.bundle # the repository may lie where only root may look
git -C "$source" bundle create --quiet "$bundle" HEAD "$(git -C "$source" branch --show-current)"
chown -R "$name" "$home"

as_newcomer() { (cd "$home" && setpriv --reuid "$name" --regid "$name" --init-groups env -i HOME="$home" PATH="$tools" "$@"); }
as_newcomer git clone --quiet "$bundle" visr
for target in demo test; do
  echo "== make $target"
  as_newcomer make -C visr "$target"
done
