-- Charges every rate and quota of one caller, or none, atomically and by Redis' own clock.
-- KEYS: a hash per rate (i: index of the clock span, c: count in it, p: count in the span before), a counter per quota
-- ARGV: now in seconds ("" except in tests), requests, characters, number of rates; limit and window in seconds per
--       rate; limit and time to live in seconds per quota
-- Returns {1 if charged else 0, now, then c and p of each rate, then the characters of each quota}, after the charge.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local requests, characters, rates = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local fits, spans, counted = 1, {}, {}

for n = 1, rates do
  local limit, window = tonumber(ARGV[3 + 2 * n]), tonumber(ARGV[4 + 2 * n])
  local kept = redis.call('HMGET', KEYS[n], 'i', 'c', 'p')
  local index = math.floor(now / window)
  local span = {i = tonumber(kept[1] or index), c = tonumber(kept[2] or 0), p = tonumber(kept[3] or 0)}
  if span.i > index then
    -- the clock was set back: the count stays, and fades from now on, whatever comes of this charge
    span = {i = index, c = span.c, p = 0}
    redis.call('HSET', KEYS[n], 'i', index, 'p', 0)
  elseif span.i < index then
    span = {i = index, c = 0, p = (span.i == index - 1) and span.c or 0}
  end
  local used = math.floor(span.p * (1 - (now % window) / window)) + span.c
  if used + requests > limit then fits = 0 end
  spans[n] = span
end
for n = rates + 1, #KEYS do
  local limit = tonumber(ARGV[3 + 2 * n])
  counted[n] = tonumber(redis.call('GET', KEYS[n]) or 0)
  if counted[n] + characters > limit then fits = 0 end
end

local answer = {fits, string.format('%.6f', now)}
for n = 1, rates do
  local span = spans[n]
  if fits == 1 then
    span.c = span.c + requests
    redis.call('HSET', KEYS[n], 'i', span.i, 'c', span.c, 'p', span.p)
    redis.call('EXPIRE', KEYS[n], 2 * tonumber(ARGV[4 + 2 * n]))
  end
  answer[#answer + 1] = span.c
  answer[#answer + 1] = span.p
end
for n = rates + 1, #KEYS do
  if fits == 1 then
    counted[n] = redis.call('INCRBY', KEYS[n], characters)
    redis.call('EXPIRE', KEYS[n], ARGV[4 + 2 * n])
  end
  answer[#answer + 1] = counted[n]
end
return answer
