#!/usr/bin/env bash
# Fetches the sources of the libraries that ./course web compiles, as Debian and Ubuntu have them, into
# a folder: sources.sh FOLDER. The list of sources is the script's own; the machine's stays as it is.
set -euo pipefail
folder=$1
wanted=(imgui pcre2 utf8proc)

complete() {
  local name
  for name in "${wanted[@]}"; do [ -d "$folder/$name" ] || return 1; done
}
complete && exit 0

rm -rf "$folder" && mkdir -p "$folder/lists/partial" && cd "$folder"
# Of the release itself: the sources of its updates come and go.
# "libpcre2-dev | 10.42-1 | http://archive/debian bookworm/main amd64 Packages": where this machine's come from.
apt-cache madison libimgui-dev libpcre2-dev libutf8proc-dev |
  sed -nE 's@^.*[|] *([^ ]+) ([^ -]+)/([^ /]+) [^ ]+ Packages$@deb-src \1 \2 \3@p' | sort -u >sources.list
[ -s sources.list ] || { echo "apt does not know libimgui-dev; wanted Debian or Ubuntu, after apt-get update" >&2; exit 1; }
apt=(apt-get -q -o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$PWD/lists"
  -o APT::Get::List-Cleanup=0 -o APT::Sandbox::User=root)
"${apt[@]}" update
"${apt[@]}" source "${wanted[@]}"
for name in "${wanted[@]}"; do mv "$name"-*/ "$name"; done
rm -rf lists
