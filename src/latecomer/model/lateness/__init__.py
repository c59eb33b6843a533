"""How late events come, and what each setting would mean: pure arithmetic on arrays of microseconds.

`histogram` counts durations, and finds the delay after which waiting longer gains little. `course` walks the timeline
without any delay. `sweep` counts the effects of each setting. `groups` finds who is late and how that changes a number.
`advice` turns the results into settings.
"""
