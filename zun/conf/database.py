# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "database"
CONNECTION = "sqlite:///$state_path/zun.sqlite"

# The further options of this group in oslo.db configure oslo.db's engines, which no program here uses.
OPTS = [
    cfg.StrOpt(
        "connection",
        default=CONNECTION,
        secret=True,
        help="SQLAlchemy URL of the database: mysql+pymysql://USER:PASSWORD@HOST/NAME or "
        "postgresql+psycopg://USER:PASSWORD@HOST/NAME. Use an SQLite file only with the all-in-one.",
    ),
    bounded.IntOpt(
        "max_pool_size",
        default=5,
        min=0,
        help="Number of connections that stay open in each pool. A service has two pools, one for reading and one for "
        "writing. 0: no limit. Not used with SQLite.",
    ),
    bounded.IntOpt(
        "max_overflow",
        default=50,
        min=-1,
        help="Number of connections that each pool may open above max_pool_size while all are in use. -1: no limit. "
        "Not used with SQLite.",
    ),
]
