-- One request again and again, each as the next of the callers whose access tokens stand in the file TOKENS, a line each.
local requests, number = {}, 0

function init()
  for token in io.lines(os.getenv("TOKENS")) do
    local headers = { ["Content-Type"] = os.getenv("CONTENT_TYPE"), ["Authorization"] = "Bearer " .. token }
    requests[#requests + 1] = wrk.format(os.getenv("METHOD"), os.getenv("TARGET"), headers, os.getenv("BODY"))
  end
end

function request()
  number = number % #requests + 1
  return requests[number]
end
