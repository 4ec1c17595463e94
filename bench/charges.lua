-- One charge a request, without an external id: the service makes one.
wrk.method = "POST"
wrk.path = "/v1/connect/charge"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
wrk.body = '{"amount":1234,"key":"' .. os.getenv("PIX_KEY") .. '"}'

local refused = 0
function response(status)
  if status ~= 200 then
    refused = refused + 1
    if refused == 1 then io.stderr:write("a request was answered " .. status .. "\n") end
  end
end
