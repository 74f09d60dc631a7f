-- Refunds characters to the quotas that were charged, atomically. Returns the number of changed counters.
-- KEYS: a counter per quota;  ARGV: characters
-- A counter below `characters` has expired and started over: it is left alone, since a negative counter would grant
-- extra quota and, without a time to live, would never expire.
local characters, changed = tonumber(ARGV[1]), 0
for n = 1, #KEYS do
  if tonumber(redis.call('GET', KEYS[n]) or 0) >= characters then
    redis.call('DECRBY', KEYS[n], characters)
    changed = changed + 1
  end
end
return changed
