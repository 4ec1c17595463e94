-- One transfer a request to an outside account, without an external id.
wrk.method = "POST"
wrk.path = "/v1/connect/transfer/manual"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
wrk.body = '{"amount":1,"credit_party":{"account_number":"1001","account_type":"CHECKING","branch":"0001","ispb":"99999004","name":"Maria Silva","tax_id":"52998224725"}}'

local refused = 0
function response(status)
  if status ~= 200 then
    refused = refused + 1
    if refused == 1 then io.stderr:write("a request was answered " .. status .. "\n") end
  end
end
