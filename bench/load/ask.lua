-- One request again and again, each as the next of the callers whose access tokens stand in the file TOKENS, a line each.
-- Without a token each request names the next of a thousand addresses, as a proxy would.
-- A target with {txid} names another charge each time.
local requests, number, count = {}, 0, 0
local started_at, is_named = os.time(), string.find(os.getenv("TARGET"), "{txid}", 1, true) ~= nil

local function add(name, value)
  local headers = { ["Content-Type"] = os.getenv("CONTENT_TYPE"), [name] = value }
  requests[#requests + 1] = wrk.format(os.getenv("METHOD"), os.getenv("TARGET"), headers, os.getenv("BODY"))
end

function init()
  for token in io.lines(os.getenv("TOKENS")) do
    add("Authorization", "Bearer " .. token)
  end
  for address = 1, #requests == 0 and 1000 or 0 do
    add("X-Forwarded-For", string.format("198.18.%d.%d", math.floor(address / 250), address % 250 + 1))
  end
end

function request()
  number = number % #requests + 1
  if not is_named then
    return requests[number]
  end
  count = count + 1
  return (string.gsub(requests[number], "{txid}", string.format("bench%012d%014d", started_at, count), 1))
end
