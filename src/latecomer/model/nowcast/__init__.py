"""What a number will probably be once all its events have come, from how past windows filled. Pure.

`filling` says how much of each past window was there at an age, `estimating` makes an estimate with an interval
of that, `calibration` holds such intervals against history that was kept back.
"""
