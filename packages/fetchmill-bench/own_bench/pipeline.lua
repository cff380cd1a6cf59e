-- wrk sends 32 requests in one write, and waits for all their replies.
local requests

function init(_)
  requests = string.rep(wrk.format("GET"), 32)
end

function request()
  return requests
end
