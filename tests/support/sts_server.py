"""A token service over TLS: `sts_server.py ADDRESS CERTIFICATE KEY ACCESS_KEY SECRET_KEY`.

It returns these credentials for any request for a role with a web identity, and prints a line for each.
"""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

REPLY = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


def main() -> None:
    """Serves until it is killed."""
    address, certificate, key, access, secret = sys.argv[1:]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            query = parse_qs(body or urlsplit(self.path).query)
            print(self.headers["Host"], query["Action"][0], query["WebIdentityToken"][0], flush=True)
            reply = REPLY.format(access=access, secret=secret).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_POST  # noqa: N815 - the name that http.server calls

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer((address, 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
