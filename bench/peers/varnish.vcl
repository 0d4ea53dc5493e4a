# Varnish as a cache of POSTs, with their bodies in the hash. ${NAMES} are filled in by bench/peers/varnish.ts.
vcl 4.1;

import std;
import bodyaccess;

backend default {
  .host = "127.0.0.1";
  .port = "${ENGINE}";
}

sub vcl_recv {
  if (req.method == "POST") {
    std.cache_req_body(64KB);
    return (hash);
  }
  return (pass);
}

sub vcl_hash {
  hash_data(req.url);
  hash_data(req.http.SOAPAction);
  bodyaccess.hash_req_body();
  return (lookup);
}

sub vcl_backend_fetch {
  # Varnish makes a GET of what it may store.
  set bereq.method = "POST";
}

sub vcl_backend_response {
  set beresp.ttl = 12h;
}

sub vcl_deliver {
  if (obj.hits > 0) {
    set resp.http.X-Cache = "HIT";
  } else {
    set resp.http.X-Cache = "MISS";
  }
}
