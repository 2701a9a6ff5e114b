#!/usr/bin/env bash
# Clone this repository and run the README's two commands as a new user with an empty home, no compiler on PATH,
# no git identity and an empty environment. Needs root, to create the user:
#     tests/newcomer.sh [NAME]        (as the user NAME, by default `newcomer`; an existing one is deleted first)
set -euo pipefail
name=${1:-newcomer}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

pkill -u "$name" 2>/dev/null || true
userdel --remove "$name" 2>/dev/null || true
useradd --create-home --shell /bin/bash "$name"
home=$(getent passwd "$name" | cut -d: -f6)

tools=$home/tools # /usr/bin without compilers
mkdir "$tools"
for tool in /usr/bin/*; do
  case $(basename "$tool") in
    *gcc* | *g++* | cc | c++ | c89* | c99* | *clang* | cpp* | ld | ld.* | as) ;;
    *) ln -s "$tool" "$tools/" ;;
  esac
done

bundle=$home/visr.bundle # the repository may be readable by root only
git -C "$source" bundle create --quiet "$bundle" HEAD "$(git -C "$source" branch --show-current)"
chown -R "$name" "$home"

as_newcomer() { (cd "$home" && setpriv --reuid "$name" --regid "$name" --init-groups env -i HOME="$home" PATH="$tools" "$@"); }
as_newcomer git clone --quiet "$bundle" visr
for target in demo test; do
  echo "== make $target"
  as_newcomer make -C visr "$target"
done
