# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.conf import scheduler
from zun.scheduler.service import SchedulerService
from zun.tests.fixtures import own_conf

STARTED_WITH = {"max_attempts", "alternates", "host_subset_size", "sweep_interval"}  # by ``start``


@pytest.mark.parametrize("option", sorted({each.dest for each in scheduler.OPTS} - STARTED_WITH))
def test_no_service_is_made_of_a_wrong_value(tmp_path, option):
    """oslo.config looks at one when it is asked for, for some in a periodic task, which would fail each time."""
    conf, file = own_conf(), tmp_path / "zun.conf"
    file.write_text(f"[scheduler]\n{option} = nonsense\n")
    conf([], project="zun-test", default_config_files=[str(file)], default_config_dirs=[])
    with pytest.raises(Exception, match=f"{option}|nonsense"):
        SchedulerService(conf)
