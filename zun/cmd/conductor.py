# SPDX-License-Identifier: Apache-2.0
"""zun-conductor: reaches the database for hosts that have no credentials of it. Any number may run."""


from zun.cmd import program
from zun.common import metrics
from zun.conductor.service import THREADS, ConductorService
from zun.messaging import rpc


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-conductor", executor_thread_pool_size=THREADS)
    program.connect_database(conf)
    metrics.serve(conf, conf.metrics.conductor_port)
    transport = rpc.get_transport(conf)
    service = ConductorService(conf)
    service.start(transport)
    program.wait_for_signal("zun-conductor is ready")
    service.stop()
    transport.cleanup()


if __name__ == "__main__":
    main()
