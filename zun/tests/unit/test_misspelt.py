# SPDX-License-Identifier: Apache-2.0
import pathlib
import re

import pytest
from oslo_config import cfg
from oslo_log import log as oslo_log

from zun import conf as zun_conf
from zun.conf import misspelt, values
from zun.messaging import rpc


def told(tmp_path: pathlib.Path, text: str, *, api: bool = True) -> list[str]:
    """Return the warnings about a file with ``text``, without its path."""
    file = tmp_path / "zun.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    oslo_log.register_options(conf)
    rpc.register_opts(conf)
    zun_conf.register_opts(conf)
    conf([], project="zun", default_config_files=[str(file)], default_config_dirs=[])
    lines = list(misspelt.misspelt(conf, api=api))
    assert all(line.startswith(f"{file}: ") for line in lines)
    return [line.removeprefix(f"{file}: ") for line in lines]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[compute]\ncpu_dedicatd_set = 1", "[compute] has no option cpu_dedicatd_set.*did you mean cpu_dedicated_set"),
        ("[DEFAULT]\ncpu_dedicated_set = 1", "[DEFAULT] has no option cpu_dedicated_set.*belongs into [compute]"),
        ("[compute]\nplenty = 1", "[compute] has no option plenty.*remove it"),
        ("[comptue]\nworkers = 1", "no section [comptue].*did you mean [compute]"),
        ("[DEFAULT]\nstate_pth = /", "[DEFAULT] has no option state_pth.*did you mean state_path"),
        ("[DEFAULT]\ntransport_ulr = /", "[DEFAULT] has no option transport_ulr.*did you mean transport_url"),
        ("[database]\nconection = x", "[database] has no option conection.*did you mean connection"),
        ("[database]\nslave_connection = x", "[database] has no option slave_connection.*ignored"),
        ("[database]\nmax_retries = -1", "[database] has no option max_retries.*remove it"),
        ("[database]\nconnection_recycle_time = 9", "[database] has no option connection_recycle_time.*remove it"),
        ("[oslo_policy]\nenforce_scope = true", "[oslo_policy] has no option enforce_scope.*not for scopes"),
        ("[oslo_policy]\npolicy_dir = d", "[oslo_policy] has no option policy_dir.*did you mean policy_dirs"),
        ("[cors.horizon]\nallowed_origin = x", "no section [cors.horizon].*did you mean [cors]"),
        ("[keystone_authtoken]\nauth_uri = x", "[keystone_authtoken] has no option auth_uri.*www_authenticate_uri"),
        ("[keystone_authtoken]\nusrname = x", "[keystone_authtoken] has no option usrname.*did you mean username"),
        ("[DEFAULT]\nosapi_max_request_body_size = 1", "[DEFAULT] has no option osapi_max_request_body_size.*fixed"),
        ("[oslo_middleware]\nmax_request_body_size = 1", "[oslo_middleware] has no option max_request_body.*fixed"),
        ("[DEFAULT]\nbacklog = 1", "[DEFAULT] has no option backlog.*remove it"),
        ("[oslo_messaging_rabbit]\nrabbit_qourum_queue = 1", "no option rabbit_qourum_queue.*mean rabbit_quorum_queue"),
        ("[glance]\nca_file = x", "[glance] has no option ca_file.*did you mean cafile"),
        ("[mycloud]\nlicence = 1", "no section [mycloud].*remove it"),
        ("[pci]\nalias = 1", "no section [pci].*[devices]"),
        ("[zun_client]\nregion_name = x", "no section [zun_client].*remove it"),
        ("[keystone_auth]\nusername = x", "no section [keystone_auth].*auth_section = keystone_auth into [neutron]"),
    ],
)
def test_what_is_ignored_is_told(tmp_path: pathlib.Path, text: str, said: str) -> None:
    (line,) = told(tmp_path, text)
    assert all(part in line for part in said.split(".*"))


def test_what_is_read_is_not_told(tmp_path: pathlib.Path) -> None:
    text = """
    [DEFAULT]
    host = h1
    logfile = an old name
    transport-url = fake://
    [compute]
    cpu_dedicated_set = 1
    [database]
    connection = sqlite://
    max-pool-size = 5
    [keystone_authtoken]
    username = zun
    auth_plugin = password
    www_authenticate_uri = http://keystone
    [glance]
    auth_section = accounts
    [accounts]
    auth_type = v3applicationcredential
    application_credential_secret = s
    [neutron]
    auth_type = of a plugin
    colour = red
    [cors]
    allowed_origin = http://dashboard
    [oslo_messaging_rabbit]
    rabbit_quorum_queue = true
    [oslo_concurrency]
    lock_path = /tmp
    [vif_plug_ovs_privileged]
    helper_command = sudo
    """
    assert told(tmp_path, "\n".join(line.strip() for line in text.splitlines())) == []


def test_files_of_a_folder_are_read_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "50-cpus.conf").write_text("[compute]\nreserved_host_cpu = 0\n")
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf(["--config-dir", str(tmp_path)], project="zun", default_config_files=[])
    (line,) = misspelt.misspelt(conf)
    assert line.startswith(f"{tmp_path}/50-cpus.conf: ") and "reserved_host_cpus" in line


def test_other_programs_leave_the_options_of_the_api_alone(tmp_path: pathlib.Path) -> None:
    assert told(tmp_path, "[oslo_policy]\nenforce_scope = true\n[keystone_authtoken]\nauth_uri = x", api=False) == []


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("OS_COMPUTE__CPU_DEDICATD_SET", "[compute] has no option cpu_dedicatd_set.*did you mean cpu_dedicated_set"),
        ("OS_COMPTUE__WORKERS", "no section [comptue].*did you mean [compute]"),
        ("OS_DEFAULT__HOSTT", "[DEFAULT] has no option hostt.*did you mean host"),
        ("os_compute__workers", "is ignored: write OS_COMPUTE__WORKERS, in capital letters"),
        ("OS_Oslo_Messaging_Rabbit__ssl", "is ignored: write OS_OSLO_MESSAGING_RABBIT__SSL"),
        ("os_DEFAULT__Host", "is ignored: write OS_DEFAULT__HOST"),
        ("OS_KEYSTONE_AUTHTOKEN__PASWORD", "[keystone_authtoken] has no option pasword.*did you mean password"),
    ],
)
def test_a_misspelt_variable_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, variable: str, said: str
) -> None:
    monkeypatch.setenv(variable, "1")
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    (line,) = misspelt.misspelt(conf)
    assert line.startswith(f"environment variable {variable}")
    assert all(part in line for part in said.split(".*"))


def test_variables_that_are_read_or_of_clients_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ("OS_COMPUTE__WORKERS", "OS_DEFAULT__HOST", "OS_OSLO_MESSAGING_RABBIT__SSL")
    for name in (*read, "OS_AUTH_URL", "X__Y", "os_other__x"):
        monkeypatch.setenv(name, "1")
    conf = zun_conf.register_opts(cfg.ConfigOpts())
    conf([], project="zun", default_config_files=[], default_config_dirs=[])
    assert list(misspelt.misspelt(conf)) == []


def test_the_libraries_are_those_of_the_sample() -> None:
    text = (pathlib.Path(__file__).parents[3] / "etc/zun/zun-config-generator.conf").read_text()
    sampled = [line.removeprefix("namespace = ") for line in text.splitlines() if line.startswith("namespace")]
    assert sampled == ["zun", *sorted({*misspelt.LIBRARIES, *misspelt.LIBRARIES_OF_API})]


#: The options that the role zun of kolla-ansible writes, with values of the same form.
KOLLA = """
[DEFAULT]
debug = False
log_file = /var/log/kolla/zun/zun-api.log
log_dir = /var/log/kolla/zun
transport_url = rabbit://u:p@192.0.2.1:5672//
state_path = /var/lib/zun
container_driver = docker
capsule_driver = cri
sandbox_image = registry.example/pause:1
[network]
driver = kuryr
[database]
connection = mysql+pymysql://u:p@192.0.2.1:3306/zun
connection_recycle_time = 10
max_pool_size = 1
max_retries = -1
[keystone_auth]
LOGIN
[keystone_authtoken]
service_type = container
LOGIN
[zun_client]
CLIENT
[glance_client]
CLIENT
[neutron_client]
CLIENT
[cinder_client]
CLIENT
[placement_client]
CLIENT
[profiler]
enabled = true
[oslo_concurrency]
lock_path = /var/lib/zun/tmp
[oslo_policy]
policy_file = policy.yaml
[compute]
host_shared_with_nova = True
[websocket_proxy]
wsproxy_host = 192.0.2.1
wsproxy_port = 6784
base_url = wss://cloud.example:6784
[docker]
api_url = tcp://192.0.2.1:2375
docker_remote_api_host = 192.0.2.1
docker_remote_api_port = 2375
[cni_daemon]
cni_daemon_port = 9036
[oslo_messaging_rabbit]
use_queue_manager = true
processname = zun-api
ssl = true
ssl_ca_file = /ca.pem
rabbit_quorum_queue = true
rabbit_stream_fanout = true
rabbit_qos_prefetch_count = 1
rabbit_transient_quorum_queue = true
""".replace(
    "LOGIN",
    """www_authenticate_uri = https://192.0.2.1:5000
auth_url = https://192.0.2.1:5000
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = service
username = zun
password = p
service_token_roles_required = true
region_name = RegionOne
cafile = /ca.pem
memcache_security_strategy = ENCRYPT
memcache_secret_key = k
memcached_servers = 192.0.2.1:11211""",
).replace("CLIENT", "region_name = RegionOne\nendpoint_type = internalURL\nca_file = /ca.pem")


def test_options_of_kolla_ansible_are_read_or_told(tmp_path: pathlib.Path) -> None:
    lines = told(tmp_path, KOLLA)
    assert {found[0] for line in lines if (found := re.findall("no section (.*?),", line))} == {
        *("[keystone_auth]", "[zun_client]", "[glance_client]", "[neutron_client]", "[cinder_client]"),
        *("[placement_client]", "[profiler]", "[cni_daemon]"),
    }
    assert {found[0] for line in lines if (found := re.findall("no option (.*?),", line))} == {
        *("container_driver", "capsule_driver", "sandbox_image", "connection_recycle_time", "max_retries"),
        *("host_shared_with_nova", "docker_remote_api_host", "docker_remote_api_port"),
    }
    assert not [line for line in lines if "see the list of options" in line and "[database]" not in line]
    conf = cfg.ConfigOpts()
    rpc.register_opts(zun_conf.register_opts(conf))
    conf([], project="zun", default_config_files=[str(tmp_path / "zun.conf")], default_config_dirs=[])
    with pytest.raises(cfg.Error) as refused:
        values.check(conf)
    assert str(refused.value) == (
        "[network] driver = kuryr is of another release: write neutron, for networks of Neutron, or docker, for "
        "networks of this host's Docker"
    )
    (tmp_path / "zun.conf").write_text(KOLLA.replace("kuryr", "neutron"))
    conf.reload_config_files()
    values.check(conf)
