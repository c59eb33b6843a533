"""How late events come, and what each setting would mean: pure arithmetic on arrays of microseconds.

`histogram` counts durations, `elbow` finds where waiting longer stops paying, `course` walks the timeline without any
delay, `ends` says where windows end, `sweep` counts what each setting would do, `groups` says who is late and what
that does to a number, `advice` makes settings of it.
"""
