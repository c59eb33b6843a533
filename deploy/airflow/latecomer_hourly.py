"""A pipeline that is run every hour by Airflow, not all the time: what has come since is read, judged and published.

A run that is repeated does nothing twice, so tasks may be retried. Airflow's machine needs the environment in
/opt/latecomer alone; where the pipeline runs on a cluster, add --master.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task

LATECOMER = "/opt/latecomer/bin/latecomer"
PIPELINE = "/etc/latecomer/upi.yaml"


@dag(
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # the pipeline itself reads all that has come since
    max_active_runs=1,  # a store has one writer
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["latecomer"],
)
def latecomer_hourly() -> None:
    """Read what is there, then look whether anything is wrong."""

    @task.bash
    def run() -> str:
        return f"{LATECOMER} run {PIPELINE} --once --log json --max-dead 5%"

    @task.bash
    def check() -> str:
        """Exit code 3 where an alert fires: the task fails, and Airflow tells whoever is to know."""
        return f"{LATECOMER} check {PIPELINE}"

    @task.bash(trigger_rule="all_success")
    def snapshot() -> str:
        """A copy a day, at the first hour."""
        return (
            '[ "{{ dag_run.run_after.hour }}" != 0 ] || '
            f"{LATECOMER} snapshot {PIPELINE} /backup/upi-{{{{ dag_run.run_after.strftime('%Y%m%d') }}}}"
        )

    run() >> check() >> snapshot()


latecomer_hourly()
