"""Asks the kernel to run this process as soon as it is due, before the processes that it measures (sched(7), Linux)."""

import os


def take_real_time_priority() -> bool:
    """Gives this process the lowest real-time priority. Returns False where that is not permitted (CAP_SYS_NICE)."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except PermissionError:
        return False
    return True
