#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# oslo.config takes an option from the environment variable OS_GROUP__OPTION. An option that may be repeated (MultiStrOpt,
# as Nova's [pci] device_spec or oslo.messaging's driver) is not read as one value there: its characters become values.
#
# Version: oslo.config 10.7.0. Needs Python 3.11 or later with venv; installs into a temporary folder.
#
# Output seen:
#   from the file:        {"vendor_id": "10de"}
#   from the environment: 21 values, the first: { " v
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install oslo.config==10.7.0
printf '[pci]\ndevice_spec = {"vendor_id": "10de"}\n' >"$folder/file.conf"
cat >"$folder/read.py" <<'PYTHON'
import sys

from oslo_config import cfg

conf = cfg.ConfigOpts()
conf.register_opts([cfg.MultiStrOpt("device_spec", default=[])], group="pci")
conf(sys.argv[1:], project="any")
print(*conf.pci.device_spec, sep="\n")
PYTHON
file=$("$folder/venv/bin/python" "$folder/read.py" --config-file "$folder/file.conf")
environment=$(OS_PCI__DEVICE_SPEC='{"vendor_id": "10de"}' "$folder/venv/bin/python" "$folder/read.py")
echo "from the file:        $file"
echo "from the environment: $(echo "$environment" | wc -l) values, the first: $(echo "$environment" | head -3 | tr '\n' ' ')"
[ "$file" = '{"vendor_id": "10de"}' ]
[ "$(echo "$environment" | wc -l)" -eq 21 ]
