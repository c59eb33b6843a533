"""Estimates a number once all its events have come, from how past windows filled. Pure.

`filling` computes how much of each past window had come at an age. `estimating` makes an estimate with an interval from
that. `calibration` tests such intervals on past windows.
"""
