#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# phases.sh 'MODE PHASE'...: runs phases of the plugin with devstack's own functions, below the folder $ROOT.
#
# Environment: DEVSTACK (a checkout of devstack), ROOT, PLUGIN (the checkout with the folder devstack), BIN (the folder
# of the programs), RABBIT_URL, MYSQL_URL (without a database), KEYSTONE_URL, ADMIN_PASSWORD, LOCALRC (more lines of
# local.conf). Calls that would install something are written to $ROOT/calls and do nothing else.

set -o errexit -o pipefail

TOP_DIR=$DEVSTACK
FILES=$TOP_DIR/files
DEST=$ROOT/opt
DATA_DIR=$ROOT/data
HOME=$ROOT/home
export OS_CLIENT_CONFIG_FILE=$ROOT/clouds.yaml SYSTEMD_DIR=$ROOT/systemd
mkdir -p "$DEST" "$DATA_DIR" "$HOME" "$SYSTEMD_DIR"
sudo() { "$@"; }

source "$TOP_DIR/functions"
HOST_IP=127.0.0.1 SERVICE_HOST=127.0.0.1 SERVICE_PROTOCOL=http REGION_NAME=RegionOne STACK_USER=$(id -un)
SERVICE_PASSWORD=service-password SERVICE_PROJECT_NAME=service SERVICE_DOMAIN_NAME=Default SERVICE_TIMEOUT=60
DATABASE_TYPE=mysql DATABASE_USER=unused DATABASE_PASSWORD=unused MYSQL_HOST=unused BASE_SQL_CONN=$MYSQL_URL
RABBIT_HOST=unused RABBIT_USERID=unused RABBIT_PASSWORD=unused
ENABLED_SERVICES=key,mysql,rabbit ENABLE_DEBUG_LOG_LEVEL=True LOG_COLOR=False API_WORKERS=2 WORKER_TIMEOUT=80
GLOBAL_VENV=False LIBS_FROM_GIT=
enable_plugin zun file:///home/stack/zun stable
GITDIR[zun]=$PLUGIN
eval "$LOCALRC"

source "$TOP_DIR/lib/database"
source "$TOP_DIR/lib/databases/mysql"
source "$TOP_DIR/lib/rpc_backend"
source "$TOP_DIR/lib/apache"
source "$TOP_DIR/lib/keystone"
SYSTEMCTL="bash $(dirname "${BASH_SOURCE[0]}")/systemctl"
KEYSTONE_SERVICE_URI=$KEYSTONE_URL MEMCACHE_SERVERS="" SSL_BUNDLE_FILE=""

call() { printf '%s\n' "$*" >>"$ROOT/calls"; }
git_clone() { call git_clone "$@"; }
setup_develop() { call setup_develop "$@"; }
install_package() { call install_package "$@"; }
install_apache_uwsgi() { call install_apache_uwsgi; }
write_uwsgi_config() { call write_uwsgi_config "$@"; }
remove_uwsgi_config() { call remove_uwsgi_config "$@"; }
start_tls_proxy() { call start_tls_proxy "$@"; }
stop_tls_proxy() { call stop_tls_proxy "$@"; }
get_transport_url() { echo "$RABBIT_URL"; }
get_python_exec_prefix() { echo "$BIN"; }
recreate_database() { "$BIN/python" "$(dirname "${BASH_SOURCE[0]}")/recreate.py" "$MYSQL_URL" "$1"; }

load_plugin_settings
for each in "$@"; do
    read -r mode phase <<<"$each"
    run_plugins "$mode" "$phase"
done
echo "enabled: $ENABLED_SERVICES"
