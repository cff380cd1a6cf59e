"""New certificates: an authority that a test trusts, and good and bad server certificates."""

import ssl
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOSTS = ("localhost", "127.0.0.1")
ANOTHER_HOST = "elsewhere.test"
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Leaf:
    """A server's chain and its key."""

    chain: Path
    key: Path


def issued_for(folder: Path, *names: str) -> tuple[Path, Leaf]:
    """Returns the file of an authority to trust, and the certificates that it has signed for these names."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert(*names)
    leaf = Leaf(folder / "chain.pem", folder / "key.pem")
    leaf.chain.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(leaf.key)
    return folder / "ca.pem", leaf


def demanding(certificates: "Certificates", version: ssl.TLSVersion) -> ssl.SSLContext:
    """Starts a server that requires a client certificate, with one version of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.good.chain, certificates.good.key)
    context.minimum_version = context.maximum_version = version
    context.load_verify_locations(certificates.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class Certificates:
    """Files in a folder: `ca_file` is the authority to trust; all leaves are for `localhost` and `127.0.0.1`.

    Each bad one has exactly one fault, which has its own failure kind.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA(organization_name="trusted")
        self.ca_file = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca_file)
        now = datetime.now(UTC)
        self.good = self._issued("good", self._authority, *HOSTS)
        self.expired = self._issued("expired", self._authority, *HOSTS, start=now - 2 * DAY, end=now - DAY)
        self.too_early = self._issued("too-early", self._authority, *HOSTS, start=now + DAY, end=now + 2 * DAY)
        self.wrong_name = self._issued("wrong-name", self._authority, ANOTHER_HOST)
        self.unknown_ca = self._issued("unknown-ca", trustme.CA(organization_name="nobody's"), *HOSTS)
        self.wrong_purpose = self._for_clients("wrong-purpose", now)
        self.self_signed = self._signed_by_itself("self-signed", now)
        # As `openssl req -x509` creates them: an authority that signs itself and is also a server.
        self.own_authority = self._signed_by_itself("own-authority", now, is_authority=True)
        self.expired_authority = self._signed_by_itself("expired-authority", now - 3 * DAY, is_authority=True)

    def odd(self, fault: str) -> Leaf:
        """Returns one that breaks a rule: `weak-key`, `long-path` or `unknown-extension`."""
        now = datetime.now(UTC)
        signer = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes()).subject
        between: list[x509.Certificate] = []
        if fault == "long-path":
            # The first one may only sign servers' certificates.
            for number, length in enumerate([0, None]):
                key = ec.generate_private_key(ec.SECP256R1())
                called = _called(f"between {number}")
                builder = _builder(issuer, called, key.public_key(), now)
                authority = x509.BasicConstraints(ca=True, path_length=length)
                between.insert(0, builder.add_extension(authority, critical=True).sign(signer, hashes.SHA256()))
                issuer, signer = called, key
        weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is what is wrong with it
        key_of_leaf = weak if fault == "weak-key" else ec.generate_private_key(ec.SECP256R1())
        builder = _builder(issuer, _called(HOSTS[0]), key_of_leaf.public_key(), now)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOSTS[0])]), critical=False)
        if fault == "unknown-extension":
            unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")
            builder = builder.add_extension(unknown, critical=True)
        chain = [builder.sign(signer, hashes.SHA256()), *between]
        pem = serialization.Encoding.PEM
        bare, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        packed = b"".join(certificate.public_bytes(pem) for certificate in chain)
        return self._written(fault, packed, key_of_leaf.private_bytes(pem, bare, plain))

    def signed_with_sha1(self) -> Leaf:
        """Returns one with a SHA-1 signature, which `cryptography` cannot create."""
        leaf = Leaf(self._folder / "sha-1.pem", self._folder / "sha-1-key.pem")
        request, extensions, key = (self._folder / name for name in ("sha-1.csr", "sha-1.ext", "ca-key.pem"))
        extensions.write_text(f"subjectAltName=DNS:{HOSTS[0]}")
        self._authority.private_key_pem.write_to_path(key)
        make_key = ("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", leaf.key, "-subj", f"/CN={HOSTS[0]}")
        sign = ("x509", "-req", "-in", request, "-CA", self.ca_file, "-CAkey", key, "-CAcreateserial", "-sha1")
        for words in ((*make_key, "-out", request), (*sign, "-days", "1", "-extfile", extensions, "-out", leaf.chain)):
            subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
        return leaf

    def _issued(
        self,
        name: str,
        authority: trustme.CA,
        *hosts: str,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> Leaf:
        issued = authority.issue_cert(*hosts, common_name=hosts[0], not_before=start, not_after=end)
        return self._written(name, issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes())

    def _for_clients(self, name: str, now: datetime) -> Leaf:
        """Returns one of the trusted authority that is only for clients, by its extended key usage."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        signer = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOSTS[0])])
        certificate = (
            x509.CertificateBuilder(authority.subject, called, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOSTS[0])]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .sign(signer, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        bare, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self._written(name, certificate.public_bytes(pem), key.private_bytes(pem, bare, plain))

    def _signed_by_itself(self, name: str, now: datetime, *, is_authority: bool = False) -> Leaf:
        """Returns a certificate whose issuer is its subject: a server's own, or one that may also sign others."""
        key = ec.generate_private_key(ec.SECP256R1())
        called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOSTS[0])])
        certificate = (
            x509.CertificateBuilder(issuer_name=called, subject_name=called, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOSTS[0])]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        bare, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self._written(name, certificate.public_bytes(pem), key.private_bytes(pem, bare, plain))

    def _written(self, name: str, chain: bytes, key: bytes) -> Leaf:
        leaf = Leaf(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        leaf.chain.write_bytes(chain)
        leaf.key.write_bytes(key)
        return leaf


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, now: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - DAY).not_valid_after(now + DAY)
