#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'TEXT'
usage: tools/services.sh install|start|stop|status|env
       [rabbit] [mysql] [postgres] [keystone] [placement] [glance] [docker] [registry] [neutron] [cinder]

What the tests need, for development and CI; all of it if none is named.

  install  install docker.io, iptables, busybox-static, rabbitmq-server, mariadb-server,
           postgresql, docker-registry, apache2-utils, openvswitch-switch, iputils-ping,
           iputils-arping, conntrack and, if no service is named, nginx-light, prometheus
           (promtool), systemd (systemd-analyze) and chromium with chromium-driver from the
           distribution where missing (root, apt); keystone is a package of the tests' virtual environment; Placement, Glance,
           Neutron and Cinder share one of their own
  start    start RabbitMQ, MariaDB, PostgreSQL, keystone, Placement, Glance, Neutron, Cinder and
           a registry that asks for a password on free ports of 127.0.0.1, with data of their own,
           and a Docker daemon if none answers; build the image zun-demo. Placement, Glance,
           Neutron and Cinder have their databases in MariaDB; Glance, Neutron and Cinder ask
           keystone, Neutron and Cinder also RabbitMQ; they are started with them, unless
           ZUN_TEST_MYSQL_URL and ZUN_TEST_KEYSTONE_URL name others for Glance. Root gets
           Neutron's agents for Open vSwitch and routers too, on a switch in user space that needs
           no module, and can connect Cinder's volumes, which are files on loop devices
  stop     end what start started and remove its data; a Docker daemon that was
           there before stays
  status   say what runs
  env      print shell assignments: eval "$(tools/services.sh env)"

State is in .run/ (ZUN_RUN_DIR), logs are in .run/services/.
TEXT
}

SERVICES=$RUN_DIR/services
ALL=(rabbit mysql postgres keystone placement glance docker registry neutron cinder)
RABBIT_BIN=${RABBIT_BIN:-/usr/lib/rabbitmq/bin}

# When we are root MariaDB runs as user mysql and PostgreSQL as user postgres, who may not be
# able to walk into the checkout; so the data is elsewhere, and its place is recorded.
data_dir() {
    if [ ! -s "$SERVICES/data" ] || [ ! -d "$(cat "$SERVICES/data")" ]; then
        (umask 077 && mktemp -d "${TMPDIR:-/tmp}/zun-services.XXXXXX") >"$SERVICES/data"
        chmod 711 "$(cat "$SERVICES/data")"
    fi
    cat "$SERVICES/data"
}

# Only a folder that data_dir made: the file with its name may have been written by something else.
remove_data() {
    local folder
    folder=$(cat "$SERVICES/data")
    [[ $folder == /*/zun-services.?????? ]] || die "$SERVICES/data names $folder, which is not removed. Remove that file."
    rm -rf --one-file-system "$folder" "$SERVICES/data"
}

secret() { od -An -N12 -tx1 /dev/urandom | tr -d ' \n'; }

# RabbitMQ. Three listeners, all on the loopback: AMQP, the Erlang distribution, and the
# port mapper (epmd), which is started here so that it is ours to end: the one RabbitMQ
# starts itself detaches and stays. The node is zun@localhost, so that the machine's name
# need not resolve; the cookie is in a HOME of its own.
start_rabbit() {
    local dir ports amqp dist epmd password
    ! running rabbit || return 0
    [ -x "$RABBIT_BIN/rabbitmq-server" ] || die "RabbitMQ is not installed; run: sudo tools/services.sh install"
    dir=$(data_dir)/rabbit
    rm -rf "$dir"
    mkdir -p "$dir/home" "$dir/mnesia"
    read -r -a ports <<<"$(free_ports 3)"
    amqp=${ports[0]} dist=${ports[1]} epmd=${ports[2]}
    password=$(secret)
    (umask 077 && cat >"$dir/rabbitmq.conf") <<TEXT
listeners.tcp.1 = 127.0.0.1:$amqp
default_user = zun
default_pass = $password
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 512MB
log.console = true
log.file = false
TEXT
    printf '[].\n' >"$dir/enabled_plugins"
    : >"$dir/env.conf"
    cat >"$dir/environment" <<TEXT
HOME=$dir/home
ERL_EPMD_ADDRESS=127.0.0.1
ERL_EPMD_PORT=$epmd
RABBITMQ_CONF_ENV_FILE=$dir/env.conf
RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf
RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins
RABBITMQ_MNESIA_BASE=$dir/mnesia
RABBITMQ_LOG_BASE=$dir
RABBITMQ_PID_FILE=$dir/rabbit.pid
RABBITMQ_GENERATED_CONFIG_DIR=$dir/config
RABBITMQ_NODENAME=zun@localhost
RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
RABBITMQ_NODE_PORT=$amqp
RABBITMQ_DIST_PORT=$dist
RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none
TEXT
    local environment
    mapfile -t environment <"$dir/environment"
    say "Starting RabbitMQ on 127.0.0.1:$amqp (log: $SERVICES/rabbit.log)"
    : >"$SERVICES/rabbit.log"
    launch epmd "$SERVICES/rabbit.log" epmd -address 127.0.0.1 -port "$epmd"
    wait_until 10 listens "$epmd" || die "epmd did not start; see $SERVICES/rabbit.log."
    launch rabbit "$SERVICES/rabbit.log" env "${environment[@]}" "$RABBIT_BIN/rabbitmq-server"
    if ! wait_until 90 rabbit_settled || ended rabbit; then
        tail -n 20 "$SERVICES/rabbit.log" >&2
        die "RabbitMQ did not start; its log is $SERVICES/rabbit.log."
    fi
    (umask 077 && cat >"$SERVICES/rabbit.env") <<TEXT
export ZUN_TEST_RABBIT_URL=rabbit://zun:$password@127.0.0.1:$amqp/
TEXT
}

# The port opens before the last boot step, so the log tells when all is there.
rabbit_settled() { ended rabbit || grep -q 'Server startup complete' "$SERVICES/rabbit.log"; }

# MariaDB: data, socket and port of its own, no configuration file of the machine.
start_mysql() {
    local dir port password user=()
    ! running mysql || return 0
    PATH=$PATH:/usr/sbin have mariadbd || die "MariaDB is not installed; run: sudo tools/services.sh install"
    dir=$(data_dir)/mysql
    rm -rf "$dir"
    mkdir -p "$dir"
    if is_root; then
        chown mysql: "$dir"
        user=(--user=mysql)
    fi
    port=$(free_ports 1)
    password=$(secret)
    say "Starting MariaDB on 127.0.0.1:$port (log: $SERVICES/mysql.log)"
    : >"$SERVICES/mysql.log"
    mariadb-install-db --no-defaults "${user[@]}" --datadir="$dir/data" --skip-test-db \
        --auth-root-authentication-method=normal </dev/null >>"$SERVICES/mysql.log" 2>&1 || {
        tail -n 20 "$SERVICES/mysql.log" >&2
        die "mariadb-install-db failed; its output is in $SERVICES/mysql.log."
    }
    (umask 077 && cat >"$SERVICES/mysql.sql") <<TEXT
DROP USER IF EXISTS ''@'localhost';
CREATE USER 'zun'@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'zun'@'127.0.0.1' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED VIA unix_socket;
CREATE DATABASE zun CHARACTER SET utf8mb4;
TEXT
    launch mysql "$SERVICES/mysql.log" env PATH="$PATH:/usr/sbin" mariadbd --no-defaults "${user[@]}" \
        --datadir="$dir/data" --socket="$dir/socket" --pid-file="$dir/pid" \
        --bind-address=127.0.0.1 --port="$port" --skip-name-resolve --skip-log-bin \
        --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 --max-connections=500
    if ! wait_until 60 mysql_settled "$dir/socket" ||
        ! mysql_root "$dir/socket" <"$SERVICES/mysql.sql" >>"$SERVICES/mysql.log" 2>&1; then
        tail -n 20 "$SERVICES/mysql.log" >&2
        die "MariaDB did not start; its log is $SERVICES/mysql.log."
    fi
    rm -f "$SERVICES/mysql.sql"
    (umask 077 && cat >"$SERVICES/mysql.env") <<TEXT
export ZUN_TEST_MYSQL_URL=mysql+pymysql://zun:$password@127.0.0.1:$port/zun
TEXT
}

mysql_root() { mariadb --no-defaults --user=root --socket="$1"; }
# empty_database NAME: in the MariaDB above. Begins the log of the service NAME.
empty_database() {
    mysql_root "$(data_dir)/mysql/socket" >"$SERVICES/$1.log" 2>&1 <<SQL ||
DROP DATABASE IF EXISTS $1;
CREATE DATABASE $1 CHARACTER SET utf8mb4;
SQL
        die "MariaDB makes no database for ${1^}; see $SERVICES/$1.log."
}
mysql_settled() { ended mysql || mysql_root "$1" <<<'SELECT 1;'; }

# PostgreSQL: data and port of its own, no Unix socket. It refuses to run as root.
start_postgres() {
    local dir port password bin user=()
    ! running postgres || return 0
    bin=$(postgres_bin)
    [ -n "$bin" ] || die "PostgreSQL is not installed; run: sudo tools/services.sh install"
    dir=$(data_dir)/postgres
    rm -rf "$dir"
    mkdir -p "$dir"
    if is_root; then
        chown postgres: "$dir"
        user=(setpriv --reuid=postgres --regid=postgres --init-groups)
    fi
    port=$(free_ports 1)
    password=$(secret)
    say "Starting PostgreSQL on 127.0.0.1:$port (log: $SERVICES/postgres.log)"
    : >"$SERVICES/postgres.log"
    (umask 077 && printf '%s\n' "$password" >"$dir/password")
    ! is_root || chown postgres: "$dir/password"
    # The folder may be one that user postgres cannot be in.
    if ! (cd / && "${user[@]}" "$bin/initdb" --pgdata="$dir/data" --username=zun --encoding=UTF8 --locale=C \
        --auth=scram-sha-256 --pwfile="$dir/password" --no-sync </dev/null >>"$SERVICES/postgres.log" 2>&1); then
        tail -n 20 "$SERVICES/postgres.log" >&2
        die "initdb failed; its output is in $SERVICES/postgres.log."
    fi
    launch postgres "$SERVICES/postgres.log" env -C / "${user[@]}" "$bin/postgres" -D "$dir/data" \
        -c listen_addresses=127.0.0.1 -c port="$port" -c unix_socket_directories= -c fsync=off \
        -c shared_buffers=64MB -c max_connections=200
    if ! wait_until 60 postgres_settled || ended postgres; then
        tail -n 20 "$SERVICES/postgres.log" >&2
        die "PostgreSQL did not start; its log is $SERVICES/postgres.log."
    fi
    (umask 077 && cat >"$SERVICES/postgres.env") <<TEXT
export ZUN_TEST_POSTGRES_URL=postgresql+psycopg://zun:$password@127.0.0.1:$port/postgres
TEXT
}

# Debian keeps each version in a folder of its own, off the PATH.
postgres_bin() {
    local bin
    for bin in /usr/lib/postgresql/*/bin; do
        if [ -x "$bin/initdb" ]; then printf '%s\n' "$bin"; fi
    done | sort -V | tail -n 1
}
postgres_settled() { ended postgres || grep -q 'ready to accept connections' "$SERVICES/postgres.log"; }

# keystone_authtoken URL: the section of a service that asks the keystone of URL, http://USER:PASSWORD@ADDRESS.
keystone_authtoken() {
    local user=${1#http://} address=http://${1#*@}
    user=${user%%@*}
    cat <<TEXT
[keystone_authtoken]
www_authenticate_uri = $address
auth_url = $address
auth_type = password
username = ${user%%:*}
password = ${user#*:}
project_name = admin
user_domain_id = default
project_domain_id = default
interface = public
TEXT
}

# Keystone: SQLite, Fernet tokens, threads of one process. Passwords are hashed with the least
# cost there is. The cache is the process's own, so that what a test changes counts at once;
# without it each check of a token takes more than half a second of CPU.
start_keystone() {
    local dir port password bin url
    ! running keystone || return 0
    bin=$(keystone_bin)
    [ -n "$bin" ] || die "Keystone is not installed; run: tools/services.sh install keystone"
    dir=$(data_dir)/keystone
    rm -rf "$dir"
    (umask 077 && mkdir -p "$dir/fernet")
    port=$(free_ports 1)
    password=$(secret)
    url=http://127.0.0.1:$port/v3
    cat >"$dir/keystone.conf" <<TEXT
[database]
connection = sqlite:///$dir/keystone.sqlite
[fernet_tokens]
key_repository = $dir/fernet
[fernet_receipts]
key_repository = $dir/fernet
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
TEXT
    say "Starting keystone on 127.0.0.1:$port (log: $SERVICES/keystone.log)"
    : >"$SERVICES/keystone.log"
    if ! {
        "$bin/keystone-manage" --config-file "$dir/keystone.conf" db_sync &&
            "$bin/keystone-manage" --config-file "$dir/keystone.conf" fernet_setup \
                --keystone-user "$(id -un)" --keystone-group "$(id -gn)" &&
            OS_BOOTSTRAP_PASSWORD=$password "$bin/keystone-manage" --config-file "$dir/keystone.conf" bootstrap \
                --bootstrap-public-url "$url" --bootstrap-region-id RegionOne
    } </dev/null >>"$SERVICES/keystone.log" 2>&1; then
        tail -n 20 "$SERVICES/keystone.log" >&2
        die "keystone-manage failed; its output is in $SERVICES/keystone.log."
    fi
    # Not gunicorn: keystone would read its arguments.
    cat >"$dir/serve.py" <<'PYTHON'
import sys

from cheroot import wsgi

port = int(sys.argv.pop())
from keystone.wsgi.api import application  # reads what is left of the arguments

wsgi.Server(("127.0.0.1", port), application, numthreads=4, request_queue_size=64).safe_start()
PYTHON
    launch keystone "$SERVICES/keystone.log" env OS_KEYSTONE_CONFIG_FILES="$dir/keystone.conf" \
        "$bin/python" "$dir/serve.py" "$port"
    if ! wait_until 60 keystone_settled "$port" || ended keystone; then
        tail -n 20 "$SERVICES/keystone.log" >&2
        die "Keystone did not start; its log is $SERVICES/keystone.log."
    fi
    (umask 077 && cat >"$SERVICES/keystone.env") <<TEXT
export ZUN_TEST_KEYSTONE_URL=http://admin:$password@127.0.0.1:$port/v3
TEXT
}

# Where keystone-manage and a Python that knows keystone are: the tests' virtual environment, or the caller's.
keystone_bin() {
    local found
    for found in "$RUN_DIR/venv/bin/keystone-manage" "$(command -v keystone-manage)"; do
        if [ -x "$found" ]; then dirname "$found" && return; fi
    done
}
keystone_settled() { ended keystone || listens "$1"; }

# Placement: a database of the MariaDB above, threads of one process, in the virtual environment of OpenStack's services,
# which need other versions of libraries than we do. Its tokens are user names: 'admin' may do everything but reshape.
PLACEMENT=openstack-placement==16.0.0
start_placement() {
    local dir port url
    ! running placement || return 0
    [ -x "$RUN_DIR/openstack/bin/placement-manage" ] ||
        die "Placement is not installed; run: tools/services.sh install placement"
    start_mysql
    dir=$(data_dir)/placement
    rm -rf "$dir"
    (umask 077 && mkdir -p "$dir")
    port=$(free_ports 1)
    url=$(sed -n 's/^export ZUN_TEST_MYSQL_URL=//p' "$SERVICES/mysql.env")
    cat >"$dir/placement.conf" <<TEXT
[api]
auth_strategy = noauth2
[placement_database]
connection = ${url%/*}/placement
sync_on_startup = true
TEXT
    say "Starting Placement on 127.0.0.1:$port (log: $SERVICES/placement.log)"
    empty_database placement
    launch placement "$SERVICES/placement.log" env OS_PLACEMENT_CONFIG_DIR="$dir" \
        "$RUN_DIR/openstack/bin/python" "$ROOT/tools/serve_placement.py" "$port"
    if ! wait_until 60 placement_settled "$port" || ended placement; then
        tail -n 20 "$SERVICES/placement.log" >&2
        die "Placement did not start; its log is $SERVICES/placement.log."
    fi
    (umask 077 && cat >"$SERVICES/placement.env") <<TEXT
export ZUN_TEST_PLACEMENT_URL=http://127.0.0.1:$port
export ZUN_TEST_PLACEMENT_PYTHON=$RUN_DIR/openstack/bin/python
TEXT
}
placement_settled() { ended placement || listens "$1"; }

# Glance: files on this machine, a database in MariaDB, tokens of keystone, which it asks as its administrator; threads of
# one process, in the same virtual environment. It is not in keystone's catalogue: a test that needs it there adds it.
GLANCE=glance==33.0.0
start_glance() {
    local dir port mysql keystone
    ! running glance || return 0
    [ -x "$RUN_DIR/openstack/bin/glance-manage" ] || die "Glance is not installed; run: tools/services.sh install glance"
    mysql=$(given_or_started mysql ZUN_TEST_MYSQL_URL)
    keystone=$(given_or_started keystone ZUN_TEST_KEYSTONE_URL)
    dir=$(data_dir)/glance
    rm -rf "$dir"
    (umask 077 && mkdir -p "$dir/images" "$dir/staging" "$dir/tasks")
    port=$(free_ports 1)
    cat >"$dir/glance-api.conf" <<TEXT
[DEFAULT]
enabled_backends = local:file
[glance_store]
default_backend = local
[local]
filesystem_store_datadir = $dir/images
[os_glance_staging_store]
filesystem_store_datadir = $dir/staging
[os_glance_tasks_store]
filesystem_store_datadir = $dir/tasks
[oslo_concurrency]
lock_path = $dir
[database]
connection = ${mysql%/*}/glance_$port
[paste_deploy]
flavor = keystone
$(keystone_authtoken "$keystone")
token_cache_time = -1
TEXT
    cp "$RUN_DIR/openstack/etc/glance/glance-api-paste.ini" "$dir"
    say "Starting Glance on 127.0.0.1:$port (log: $SERVICES/glance.log)"
    : >"$SERVICES/glance.log"
    if ! {
        "$RUN_DIR/openstack/bin/python" "$ROOT/tools/serve_glance.py" database "${mysql%/*}/glance_$port" &&
            "$RUN_DIR/openstack/bin/glance-manage" --config-file "$dir/glance-api.conf" db_sync
    } </dev/null >>"$SERVICES/glance.log" 2>&1; then
        tail -n 20 "$SERVICES/glance.log" >&2
        die "glance-manage failed; its output is in $SERVICES/glance.log."
    fi
    launch glance "$SERVICES/glance.log" env OS_GLANCE_CONFIG_DIR="$dir" \
        "$RUN_DIR/openstack/bin/python" "$ROOT/tools/serve_glance.py" serve "$port"
    if ! wait_until 60 glance_settled "$port" || ended glance; then
        tail -n 20 "$SERVICES/glance.log" >&2
        die "Glance did not start; its log is $SERVICES/glance.log."
    fi
    printf 'export ZUN_TEST_GLANCE_URL=http://127.0.0.1:%s\n' "$port" >"$SERVICES/glance.env"
}
glance_settled() { ended glance || listens "$1"; }

# given_or_started SERVICE VARIABLE: its URL, of the environment unless it runs here; it is started if neither.
given_or_started() {
    if ! running "$1" && [ -n "${!2:-}" ]; then
        printf '%s\n' "${!2}"
        return
    fi
    "start_$1" >&2
    sed -n "s/^export $2=//p" "$SERVICES/$1.env"
}

# install_apart NAME PACKAGE...: into a virtual environment of their own, with what serves them. They share most of their
# libraries, so one environment takes a third of the time of one each.
install_apart() {
    local venv=$RUN_DIR/$1 found package complete=true
    shift
    found=$("$venv/bin/pip" freeze 2>/dev/null) || true
    for package in "$@"; do
        grep -q -x "$package" <<<"$found" || complete=false
    done
    ! "$complete" || ! "$venv/bin/python" -c 'import cheroot, pymysql' 2>/dev/null || return 0
    say "Installing $* into $venv (log: $venv-pip.log)"
    rm -rf "$venv"
    "$(python_program)" -m venv "$venv"
    # What is imported is compiled then: most of it never is.
    "$venv/bin/pip" install --no-compile "$@" cheroot PyMySQL </dev/null >"$venv-pip.log" 2>&1 || {
        tail -n 20 "$venv-pip.log" >&2
        die "pip could not install $*; the whole output is in $venv-pip.log."
    }
}

# Neutron: a database of the MariaDB above, the RabbitMQ, keystone and virtual environment above. Root also
# gets an Open vSwitch of its own, which switches in user space, and the agent of host $(hostname).
NEUTRON=neutron==29.0.0
start_neutron() {
    local dir ports api switch flows url rabbit keystone bridge
    ! running neutron || return 0
    [ -x "$RUN_DIR/openstack/bin/neutron-db-manage" ] ||
        die "Neutron is not installed; run: tools/services.sh install neutron"
    start_mysql
    start_rabbit
    start_keystone
    dir=$(data_dir)/neutron
    rm -rf "$dir"
    (umask 077 && mkdir -p "$dir/bin" "$dir/lock")
    read -r -a ports <<<"$(free_ports 3)"
    api=${ports[0]} switch=${ports[1]} flows=${ports[2]}
    bridge=zt$api
    url=$(sed -n 's/^export ZUN_TEST_MYSQL_URL=//p' "$SERVICES/mysql.env")
    rabbit=$(sed -n 's/^export ZUN_TEST_RABBIT_URL=//p' "$SERVICES/rabbit.env")
    keystone=$(sed -n 's/^export ZUN_TEST_KEYSTONE_URL=//p' "$SERVICES/keystone.env")
    (umask 077 && neutron_conf "${url%/*}/neutron" "$rabbit" "$keystone" "$dir" "$bridge" "$switch" "$flows" \
        >"$dir/neutron.conf")
    say "Starting Neutron on 127.0.0.1:$api (logs: $SERVICES/neutron*.log)"
    empty_database neutron
    "$RUN_DIR/openstack/bin/neutron-db-manage" --config-file "$dir/neutron.conf" upgrade heads \
        </dev/null >>"$SERVICES/neutron.log" 2>&1 || {
        tail -n 20 "$SERVICES/neutron.log" >&2
        die "neutron-db-manage failed; its output is in $SERVICES/neutron.log."
    }
    launch neutron "$SERVICES/neutron.log" env OS_NEUTRON_CONFIG_FILES="$dir/neutron.conf" \
        "$RUN_DIR/openstack/bin/python" "$ROOT/tools/serve_neutron.py" "$api"
    launch neutron-rpc "$SERVICES/neutron-rpc.log" "$RUN_DIR/openstack/bin/neutron-rpc-server" \
        --config-file "$dir/neutron.conf"
    ! is_root || start_switch "$dir" "$bridge" "$switch"
    if ! wait_until 60 neutron_settled "$api" || ended neutron; then
        tail -n 20 "$SERVICES/neutron.log" >&2
        die "Neutron did not start; its log is $SERVICES/neutron.log."
    fi
    # Last: it waits a minute if nobody hears its first question.
    ! is_root || launch neutron-router "$SERVICES/neutron-router.log" \
        env PATH="$dir/bin:$RUN_DIR/openstack/bin:$PATH:/usr/sbin" OVS_RUNDIR="$dir" \
        "$RUN_DIR/openstack/bin/neutron-l3-agent" --config-file "$dir/neutron.conf"
    (umask 077 && cat >"$SERVICES/neutron.env") <<TEXT
export ZUN_TEST_NEUTRON_URL=http://127.0.0.1:$api
export ZUN_TEST_NEUTRON_OVSDB=$(! is_root || echo "tcp:127.0.0.1:$switch")
export ZUN_TEST_NEUTRON_CONF=$dir/neutron.conf
export ZUN_TEST_NEUTRON_BIN=$RUN_DIR/openstack/bin
TEXT
}
neutron_settled() { ended neutron || listens "$1"; }

neutron_conf() {
    local dir=$4 bridge=$5 switch=$6 flows=$7
    cat <<TEXT
[DEFAULT]
core_plugin = ml2
service_plugins = router
interface_driver = openvswitch
enable_metadata_proxy = false
transport_url = $2
api_paste_config = $RUN_DIR/openstack/etc/neutron/api-paste.ini
state_path = $dir
api_workers = 1
rpc_workers = 1
rpc_state_report_workers = 0
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = $1
$(keystone_authtoken "$3")
[oslo_concurrency]
lock_path = $dir/lock
[ml2]
type_drivers = local,flat,vlan
tenant_network_types = local
mechanism_drivers = openvswitch
extension_drivers = port_security
[ovs]
ovsdb_connection = tcp:127.0.0.1:$switch
integration_bridge = $bridge
bridge_mappings = public:$bridge-p
datapath_type = netdev
of_listen_port = $flows
[securitygroup]
firewall_driver = openvswitch
[agent]
report_interval = 5
root_helper = $dir/bin/sudo
TEXT
}

# start_switch FOLDER BRIDGE PORT: Open vSwitch in user space, with all of its files in FOLDER, and Neutron's agent. The
# physical network "public" is the bridge BRIDGE-p, where this machine is $PUBLIC_GATEWAY.
PUBLIC_GATEWAY=198.18.77.1/24
start_switch() {
    local dir=$1 bridge=$2 port=$3 log=$SERVICES/neutron-switch.log
    PATH=$PATH:/usr/sbin have ovs-vswitchd || die "Open vSwitch is not installed; run: sudo tools/services.sh install"
    # The agent calls sudo, which needs not be there for root.
    printf '#!/bin/sh\nexec "$@"\n' >"$dir/bin/sudo"
    chmod 755 "$dir/bin/sudo"
    ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema >>"$log" 2>&1
    launch neutron-ovsdb "$log" env PATH="$PATH:/usr/sbin" OVS_RUNDIR="$dir" ovsdb-server "$dir/conf.db" \
        --unixctl="$dir/ovsdb.ctl" --remote="punix:$dir/db.sock" --remote="ptcp:$port:127.0.0.1"
    wait_until 10 listens "$port" || die "ovsdb-server did not start; see $log."
    ovs-vsctl --db="unix:$dir/db.sock" --no-wait init >>"$log" 2>&1
    launch neutron-vswitchd "$log" env PATH="$PATH:/usr/sbin" OVS_RUNDIR="$dir" ovs-vswitchd \
        --unixctl="$dir/vswitchd.ctl" "unix:$dir/db.sock"
    ovs-vsctl --db="unix:$dir/db.sock" --timeout=20 add-br "$bridge" -- set bridge "$bridge" datapath_type=netdev \
        -- add-br "$bridge-p" -- set bridge "$bridge-p" datapath_type=netdev >>"$log" 2>&1 ||
        die "ovs-vswitchd made no bridge; see $log."
    { ip address replace "$PUBLIC_GATEWAY" dev "$bridge-p" && ip link set "$bridge-p" up; } >>"$log" 2>&1 ||
        die "the bridge of the public network got no address; see $log."
    launch neutron-agent "$SERVICES/neutron-agent.log" env PATH="$dir/bin:$RUN_DIR/openstack/bin:$PATH:/usr/sbin" OVS_RUNDIR="$dir" \
        "$RUN_DIR/openstack/bin/neutron-openvswitch-agent" --config-file "$dir/neutron.conf"
}

# Cinder: a database of the MariaDB above, the RabbitMQ, keystone and virtual environment above, and the
# backend of tools/cinder_loop.py. Its token for another service must have the role service, as in a cloud.
CINDER=cinder==29.0.0
start_cinder() {
    local dir api url
    ! running cinder || return 0
    [ -x "$RUN_DIR/openstack/bin/cinder-manage" ] || die "Cinder is not installed; run: tools/services.sh install cinder"
    start_mysql
    start_rabbit
    start_keystone
    dir=$(data_dir)/cinder
    rm -rf "$dir"
    (umask 077 && mkdir -p "$dir/lock")
    api=$(free_ports 1)
    url=$(sed -n 's/^export ZUN_TEST_MYSQL_URL=//p' "$SERVICES/mysql.env")
    (umask 077 && cinder_conf "${url%/*}/cinder" "$(sed -n 's/^export ZUN_TEST_RABBIT_URL=//p' "$SERVICES/rabbit.env")" \
        "$(sed -n 's/^export ZUN_TEST_KEYSTONE_URL=//p' "$SERVICES/keystone.env")" "$dir" >"$dir/cinder.conf")
    say "Starting Cinder on 127.0.0.1:$api (logs: $SERVICES/cinder*.log)"
    empty_database cinder
    "$RUN_DIR/openstack/bin/cinder-manage" --config-file "$dir/cinder.conf" db sync \
        </dev/null >>"$SERVICES/cinder.log" 2>&1 || {
        tail -n 20 "$SERVICES/cinder.log" >&2
        die "cinder-manage failed; its output is in $SERVICES/cinder.log."
    }
    launch cinder "$SERVICES/cinder.log" "$RUN_DIR/openstack/bin/python" "$ROOT/tools/serve_cinder.py" "$api" \
        --config-file "$dir/cinder.conf"
    launch cinder-scheduler "$SERVICES/cinder-scheduler.log" "$RUN_DIR/openstack/bin/cinder-scheduler" \
        --config-file "$dir/cinder.conf"
    launch cinder-volume "$SERVICES/cinder-volume.log" env PYTHONPATH="$ROOT/tools" PATH="$PATH:/usr/sbin:/sbin" \
        "$RUN_DIR/openstack/bin/cinder-volume" --config-file "$dir/cinder.conf"
    if ! wait_until 60 cinder_settled "$api" || ended cinder; then
        tail -n 20 "$SERVICES/cinder.log" >&2
        die "Cinder did not start; its log is $SERVICES/cinder.log."
    fi
    printf 'export ZUN_TEST_CINDER_URL=http://127.0.0.1:%s\n' "$api" >"$SERVICES/cinder.env"
}
cinder_settled() { ended cinder || listens "$1"; }

cinder_conf() {
    cat <<TEXT
[DEFAULT]
auth_strategy = keystone
transport_url = $2
api_paste_config = $RUN_DIR/openstack/etc/cinder/api-paste.ini
resource_query_filters_file = $RUN_DIR/openstack/etc/cinder/resource_filters.json
state_path = $4
host = zun-test
my_ip = 127.0.0.1
enabled_backends = loop
report_interval = 5
[loop]
volume_driver = cinder_loop.LoopDriver
volume_backend_name = loop
loop_directory = $4/volumes
[database]
connection = $1
$(keystone_authtoken "$3")
service_token_roles = service
service_token_roles_required = true
[oslo_concurrency]
lock_path = $4/lock
[coordination]
backend_url = file://$4/lock
TEXT
}

# A registry of images that lets in one user. Docker takes the loopback for safe, so it needs no certificate.
start_registry() {
    local dir port password
    ! running registry || return 0
    { have docker-registry && have htpasswd; } || die "No registry is installed; run: sudo tools/services.sh install"
    dir=$(data_dir)/registry
    rm -rf "$dir"
    mkdir -p "$dir/images"
    port=$(free_ports 1)
    password=$(secret)
    (umask 077 && htpasswd -Bbn zun "$password" >"$dir/htpasswd")
    cat >"$dir/config.yml" <<TEXT
version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: $dir/images}
  delete: {enabled: true}
http: {addr: "127.0.0.1:$port"}
auth:
  htpasswd: {realm: zun, path: $dir/htpasswd}
TEXT
    say "Starting a registry on 127.0.0.1:$port (log: $SERVICES/registry.log)"
    : >"$SERVICES/registry.log"
    launch registry "$SERVICES/registry.log" docker-registry serve "$dir/config.yml"
    if ! wait_until 30 listens "$port" || ended registry; then
        tail -n 20 "$SERVICES/registry.log" >&2
        die "The registry did not start; its log is $SERVICES/registry.log."
    fi
    (umask 077 && cat >"$SERVICES/registry.env") <<TEXT
export ZUN_TEST_REGISTRY=127.0.0.1:$port
export ZUN_TEST_REGISTRY_PASSWORD=$password
TEXT
}

# huge_page_limits: the hugetlb controller where control groups are of version 1 and no init system mounts them all.
# Docker sees only the hierarchies that it finds when it starts.
huge_page_limits() {
    local mount=/sys/fs/cgroup/hugetlb
    is_root && [ ! -d /run/systemd/system ] && [ -d /sys/fs/cgroup/cpuset ] || return 0
    grep -q '^hugetlb' /proc/cgroups && ! mountpoint -q "$mount" || return 0
    mkdir -p "$mount" && mount -t cgroup -o hugetlb none "$mount" ||
        warn "the hugetlb controller could not be mounted at $mount; tests of huge page limits are skipped."
}

start_docker() {
    docker_answers || huge_page_limits
    need_docker
    demo_image
    printf 'export DOCKER_HOST=%s\n' "${DOCKER_HOST:-unix:///var/run/docker.sock}" >"$SERVICES/docker.env"
}

any_runs() {
    local one
    for one in "${ALL[@]}"; do
        ! running "$one" || return 0
    done
    return 1
}

stop_rabbit() {
    halt rabbit 30
    halt epmd 5
    rm -f "$SERVICES/rabbit.env"
}
stop_mysql() {
    halt mysql 30
    rm -f "$SERVICES/mysql.env" "$SERVICES/mysql.sql"
}
stop_postgres() {
    halt postgres 30
    rm -f "$SERVICES/postgres.env"
}
stop_keystone() {
    halt keystone 15
    rm -f "$SERVICES/keystone.env"
}
stop_placement() {
    halt placement 15
    rm -f "$SERVICES/placement.env"
}
stop_glance() {
    halt glance 15
    rm -f "$SERVICES/glance.env"
}
stop_neutron() {
    local dir bridge
    halt neutron-router 15
    halt neutron-agent 1  # it would take minutes
    if running neutron-vswitchd; then  # its bridges are interfaces of this machine
        dir=$(data_dir)/neutron
        bridge=$(sed -n 's/^integration_bridge = //p' "$dir/neutron.conf")
        ovs-vsctl --db="unix:$dir/db.sock" --timeout=10 --if-exists del-br "$bridge" -- --if-exists del-br "$bridge-p" ||
            true
    fi
    halt neutron-vswitchd 15
    halt neutron-ovsdb 15
    halt neutron-rpc 1  # likewise
    halt neutron 15
    rm -f "$SERVICES/neutron.env"
}
stop_cinder() {
    local devices
    halt cinder 15
    halt cinder-scheduler 15
    halt cinder-volume 15
    if is_root && [ -s "$SERVICES/data" ]; then  # a test that failed left some connected
        devices=$(losetup --noheadings --output NAME,BACK-FILE | awk -v of="$(cat "$SERVICES/data")/cinder/" \
            'index($2, of) == 1 { print $1 }')
        # shellcheck disable=SC2086
        [ -z "$devices" ] || losetup -d $devices || true
    fi
    rm -f "$SERVICES/cinder.env"
}
stop_registry() {
    halt registry 10
    rm -f "$SERVICES/registry.env"
}
stop_docker() {
    if running dockerd; then
        say "Stopping the Docker daemon that was started here"
        halt dockerd 30
    fi
    rm -f "$SERVICES/docker.env"
}

install_all() {
    local rabbit=() mysql=() postgres=() docker=() registry=() switch=() tools=() one
    for one in "$@"; do
        case $one in
            rabbit) [ -x "$RABBIT_BIN/rabbitmq-server" ] || rabbit=(rabbitmq-server=rabbitmq-server) ;;
            mysql | placement | glance) mysql=(mariadbd=mariadb-server mariadb-install-db=mariadb-server) ;;
            postgres) [ -n "$(postgres_bin)" ] || postgres=(postgres=postgresql) ;;
            registry) registry=(docker-registry=docker-registry htpasswd=apache2-utils) ;;
            docker) docker=(dockerd=docker.io iptables=iptables busybox=busybox-static) ;;
            neutron)
                [ -x "$RABBIT_BIN/rabbitmq-server" ] || rabbit=(rabbitmq-server=rabbitmq-server)
                mysql=(mariadbd=mariadb-server mariadb-install-db=mariadb-server)
                switch=(ovs-vswitchd=openvswitch-switch arping=iputils-arping conntrack=conntrack ping=iputils-ping)
                ;;
            cinder)
                [ -x "$RABBIT_BIN/rabbitmq-server" ] || rabbit=(rabbitmq-server=rabbitmq-server)
                mysql=(mariadbd=mariadb-server mariadb-install-db=mariadb-server)
                ;;
        esac
    done
    # Tests start nginx themselves, with the configuration that is shipped, and check the alert rules with promtool, the
    # files of etc/systemd, sysusers.d, tmpfiles.d and logrotate.d with systemd and logrotate. They open the page in
    # Chromium.
    [ $# -lt ${#ALL[@]} ] || tools=(nginx=nginx-light promtool=prometheus systemd-analyze=systemd logrotate=logrotate
        chromium=chromium chromedriver=chromium-driver)
    need_packages "${rabbit[@]}" "${mysql[@]}" "${postgres[@]}" "${docker[@]}" "${registry[@]}" "${switch[@]}" \
        "${tools[@]}"
    if [[ " $* " =~ " keystone "|" glance "|" neutron "|" cinder " ]] && [ -z "$(keystone_bin)" ]; then
        make_venv tests
    fi
    if [[ " $* " =~ " placement "|" glance "|" neutron "|" cinder " ]]; then
        install_apart openstack "$PLACEMENT" "$GLANCE" "$NEUTRON" "$CINDER"
    fi
}

main() {
    local action=${1:-} one index
    shift || true
    case $action in
        install | start | stop | status | env) ;;
        -h | --help | help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    for one in "$@"; do
        [[ " ${ALL[*]} " == *" $one "* ]] || die "there is no service $one; the services are ${ALL[*]}."
    done
    [ $# -gt 0 ] || set -- "${ALL[@]}"
    mkdir -p "$SERVICES"
    case $action in
        install) install_all "$@" ;;
        start)
            for one in "$@"; do "start_$one"; done
            ;;
        stop)
            # Each before what it asks: without their broker Cinder and Neutron's agent do not end.
            for ((index = ${#ALL[@]} - 1; index >= 0; index--)); do
                one=${ALL[index]}
                if [[ " $* " == *" $one "* ]]; then "stop_$one"; fi
            done
            if [ -s "$SERVICES/data" ] && ! any_runs; then
                remove_data
            fi
            ;;
        status)
            for one in "$@"; do
                case $one in
                    docker) if docker_answers; then echo "docker: answers"; else echo "docker: does not answer"; fi ;;
                    *) if running "$one"; then echo "$one: runs"; else echo "$one: stopped"; fi ;;
                esac
            done
            ;;
        env)
            for one in "$@"; do
                if [ -s "$SERVICES/$one.env" ]; then cat "$SERVICES/$one.env"; fi
            done
            ;;
    esac
}

main "$@"
