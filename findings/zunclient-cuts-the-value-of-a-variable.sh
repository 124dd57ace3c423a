#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python-zunclient reads "--environment KEY=VALUE" differently if the option is given once or more often. Given once, the
# value is cut at commas and semicolons: a part with "=" silently becomes a variable of its own, and a part without one is
# an error. The help says "may be repeated" and nothing of commas. The same function reads --label and --hint.
#
# Version: python-zunclient 5.5.0. Needs Python 3.11 or later with venv; installs into a temporary folder.
#
# Output seen:
#   once:  {'JAVA_OPTS': '-Xmx1g', '-Dmode': 'fast'}
#   twice: {'JAVA_OPTS': '-Xmx1g,-Dmode=fast', 'A': 'b'}
#   list:  arguments must be a list of KEY=VALUE not b:2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install python-zunclient==5.5.0
cat >"$folder/read.py" <<'PYTHON'
import sys

from zunclient import exceptions
from zunclient.common.utils import format_args

try:
    print(format_args(sys.argv[1:]))
except exceptions.CommandError as exc:
    print(exc)
PYTHON
read_them() { "$folder/venv/bin/python" -W ignore "$folder/read.py" "$@" 2>/dev/null; }
once=$(read_them JAVA_OPTS=-Xmx1g,-Dmode=fast)
twice=$(read_them JAVA_OPTS=-Xmx1g,-Dmode=fast A=b)
list=$(read_them HOSTS=a:1,b:2)
printf '%s\n' "once:  $once" "twice: $twice" "list:  $list"
[ "$once" = "{'JAVA_OPTS': '-Xmx1g', '-Dmode': 'fast'}" ]
[ "$twice" = "{'JAVA_OPTS': '-Xmx1g,-Dmode=fast', 'A': 'b'}" ]
[ "$list" = "arguments must be a list of KEY=VALUE not b:2" ]
