-- Gives characters back to the quotas that they were taken from: one call, atomic.
-- KEYS: a counter for each quota
-- ARGV: characters
-- A counter that has ended meanwhile, or that has fewer, began anew and is left as it is: a negative one would be a gift
-- and, without a time to live, one for ever. Answers how many counters were changed.
local characters, changed = tonumber(ARGV[1]), 0
for n = 1, #KEYS do
  if tonumber(redis.call('GET', KEYS[n]) or 0) >= characters then
    redis.call('DECRBY', KEYS[n], characters)
    changed = changed + 1
  end
end
return changed
