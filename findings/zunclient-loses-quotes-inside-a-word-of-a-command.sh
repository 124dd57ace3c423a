#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Below API version 1.20 python-zunclient sends the words of a command as one text. It puts each word between double
# quotes and leaves the double quotes that are inside a word as they are. So a shell's script with quotes arrives as
# other words: of three words the service gets four, and the script ends at its first blank. From 1.20 on the same
# client sends a list, which keeps the words. Heat's OS::Zun::Container asks with version 1.12 if its template has no
# "tty".
#
# Version: python-zunclient 5.5.0. Needs Python 3.11 or later with venv; installs into a temporary folder.
#
# Output seen:
#   words: ['sh', '-c', 'echo "hello there"']
#   sent:  "sh" "-c" "echo "hello there""
#   read:  ['sh', '-c', 'echo hello', 'there']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install python-zunclient==5.5.0
cat >"$folder/send.py" <<'PYTHON'
import shlex

from zunclient import api_versions
from zunclient.v1.containers import ContainerManager


class Api:
    """Answers every request and keeps the last body."""

    api_version = api_versions.APIVersion("1.12")

    def json_request(self, method, url, **more):
        self.body = more["body"]
        return None, {}


words = ["sh", "-c", 'echo "hello there"']
api = Api()
ContainerManager(api).create(image="busybox", command=list(words))
print("words:", words)
print("sent: ", api.body["command"])
print("read: ", shlex.split(api.body["command"]))
PYTHON
told=$("$folder/venv/bin/python" -W ignore "$folder/send.py" 2>/dev/null)
printf '%s\n' "$told"
expected=$(sed -n 's/^#   //p' "$0")
[ "$told" = "$expected" ]
