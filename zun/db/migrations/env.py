# SPDX-License-Identifier: Apache-2.0
"""Run alembic's migrations over the connection that ``zun.db.migration`` opened."""

from alembic import context

from zun.db import models

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
