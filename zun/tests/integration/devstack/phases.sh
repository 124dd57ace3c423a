#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# phases.sh 'MODE PHASE'...: runs phases of the plugin with devstack's own functions, below the folder $ROOT.
#
# Environment: DEVSTACK (a checkout of devstack), ROOT, PLUGIN (the checkout with the folder devstack), BIN (the folder
# of the programs), RABBIT_URL, MYSQL_URL (without a database), KEYSTONE_URL, ADMIN_PASSWORD, LOCALRC (more lines of
# local.conf), CLIENT (a process that started the stock client). Calls that would install something are written to
# $ROOT/calls and do nothing else. nginx stands for Apache: a test that needs it starts nginx with the process id in
# $ROOT/nginx.pid and with the sites $ROOT/sites/*.conf.

set -o errexit -o pipefail

TOP_DIR=$DEVSTACK
FILES=$TOP_DIR/files
DEST=$ROOT/opt
DATA_DIR=$ROOT/data
HOME=$ROOT/home
export OS_CLIENT_CONFIG_FILE=$ROOT/clouds.yaml SYSTEMD_DIR=$ROOT/systemd
HERE=$(dirname "${BASH_SOURCE[0]}")
mkdir -p "$DEST" "$DATA_DIR" "$HOME" "$SYSTEMD_DIR" "$ROOT/sites" "$ROOT/apache" "$ROOT/uwsgi"
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
SYSTEMCTL="bash $HERE/systemctl"
KEYSTONE_SERVICE_URI=$KEYSTONE_URL MEMCACHE_SERVERS="" SSL_BUNDLE_FILE=""

call() { printf '%s\n' "$*" >>"$ROOT/calls"; }
git_clone() { call git_clone "$@"; }
setup_develop() { call setup_develop "$@"; }
install_package() { call install_package "$@"; }
install_apache_uwsgi() { call install_apache_uwsgi; }
openstack() { "$BIN/python" "$HERE/openstack.py" "$CLIENT" "$@"; }
restart_apache_server() { if [ -e "$ROOT/nginx.pid" ]; then kill -HUP "$(cat "$ROOT/nginx.pid")"; fi; }
site() { # site NAME LISTEN DIRECTIVES: a server of nginx
    echo "server { listen $2; error_page 502 =503 @off; location @off { return 503; } $3 }" >"$ROOT/sites/$1.conf"
    restart_apache_server
}
start_tls_proxy() {
    call start_tls_proxy "$@"
    site "$1" "$SERVICE_HOST:$3 ssl" "ssl_certificate $DEVSTACK_CERT; ssl_certificate_key $DEVSTACK_CERT;
        location / { proxy_pass http://$4:$5; proxy_set_header X-Forwarded-Proto https; proxy_set_header X-Forwarded-Host \$http_host; }"
}
stop_tls_proxy() {
    call stop_tls_proxy "$@"
    rm -f "$ROOT/sites/$1.conf"
    restart_apache_server
}
# devstack's own function, with its two folders below $ROOT. It writes a ProxyPass for Apache.
eval "$(declare -f write_uwsgi_config | sed "s#/var/run/uwsgi#$ROOT/uwsgi#; s#/etc/tmpfiles.d#$ROOT/tmpfiles.d#g")"
APACHE_CONF_DIR=$ROOT/apache
systemd-tmpfiles() { :; }
enable_apache_site() {
    local prefix socket
    read -r prefix socket < <(sed -E 's/^ProxyPass "(.*)" "unix:(.*)\|uwsgi:.*/\1 \2/' "$APACHE_CONF_DIR/$1.conf")
    site "$1" "$ZUN_SERVICE_HOST" "location ~ ^$prefix(?<rest>/.*|\$) {
        uwsgi_param REQUEST_METHOD \$request_method; uwsgi_param QUERY_STRING \$query_string;
        uwsgi_param CONTENT_TYPE \$content_type; uwsgi_param CONTENT_LENGTH \$content_length;
        uwsgi_param SERVER_PROTOCOL \$server_protocol; uwsgi_param REMOTE_ADDR \$remote_addr;
        uwsgi_param SERVER_NAME \$server_addr; uwsgi_param SERVER_PORT \$server_port;
        uwsgi_param SCRIPT_NAME $prefix; uwsgi_param PATH_INFO \$rest; uwsgi_pass unix:$socket; }"
}
disable_apache_site() { rm -f "$ROOT/sites/$1.conf" "$APACHE_CONF_DIR/$1.conf"; restart_apache_server; }
get_transport_url() { echo "$RABBIT_URL"; }
get_python_exec_prefix() { echo "$BIN"; }
recreate_database() { "$BIN/python" "$HERE/recreate.py" "$MYSQL_URL" "$1"; }

load_plugin_settings
for each in "$@"; do
    read -r mode phase <<<"$each"
    run_plugins "$mode" "$phase"
done
echo "enabled: $ENABLED_SERVICES"
