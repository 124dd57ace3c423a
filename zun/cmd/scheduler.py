# SPDX-License-Identifier: Apache-2.0
"""zun-scheduler: finds hosts for containers. Any number of schedulers may run, without a leader."""

from zun.cmd import program
from zun.common import metrics
from zun.messaging import rpc
from zun.scheduler.service import THREADS, SchedulerService


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-scheduler", executor_thread_pool_size=THREADS)
    program.connect_database(conf)
    metrics.serve(conf, conf.metrics.scheduler_port)
    transport = rpc.get_transport(conf)
    program.collect_garbage_seldom()
    service = SchedulerService(conf)
    service.start(transport)
    program.wait_for_signal("zun-scheduler is ready")
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
