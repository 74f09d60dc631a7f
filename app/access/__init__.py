"""Who may ask for how much. HTTP stays in app/api/access_control.py.

gate.py          the way in: keys -> a caller -> what the request costs -> let through or refused
caller.py        who asks
keys.py          the file of keys, hashed, read again when it changes
rates.py         "60/minute;1000/hour" and "500000/month": notations, and a window's arithmetic
counts.py        what was taken, counted in this process
shared.py        the same, counted in Redis for many servers
take.lua         its script that takes
give_back.lua    its script that gives back
addresses.py     whose an address is
errors.py        every way to be refused
"""
