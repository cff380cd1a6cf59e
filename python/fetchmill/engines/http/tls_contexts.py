"""Creates TLS contexts, which determine the trusted certificates."""

import functools
import ssl

from fetchmill.engines.transports import TransportOptions
from fetchmill.errors import UsageError


class TlsContexts:
    """A worker's TLS contexts, each of which is created for the first target that needs it and then reused.

    Args:
        options: the options of the job.
        context: the class of the contexts.
    """

    def __init__(self, options: TransportOptions, context: type[ssl.SSLContext] = ssl.SSLContext) -> None:
        self._options = options
        self._context = context

    def context_for(self, host: str) -> ssl.SSLContext:
        """Return the context for a host, which must have the same form as in a normalised URL.

        Raises:
            UsageError: the certificate file is unusable.
        """
        return self._unverified if host in self._options.insecure_hosts else self._verified

    @functools.cached_property
    def _verified(self) -> ssl.SSLContext:
        context = self._new()
        # Do not accept names that occur only in CN.
        context.hostname_checks_common_name = False
        try:
            _load(context, self._options.ca_file)
        except OSError as error:
            raise UsageError(f"{self._options.ca_file}: cannot read certificates ({error})") from None
        return context

    @functools.cached_property
    def _unverified(self) -> ssl.SSLContext:
        context = self._new()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def _new(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        return context


def _load(context: ssl.SSLContext, ca_file: str | None) -> None:
    """Load certificate authorities from `ca_file` if given, otherwise from the system, otherwise from certifi."""
    if ca_file is not None:
        context.load_verify_locations(ca_file)
        return
    context.load_default_certs()
    paths: tuple[str | None, ...] = ssl.get_default_verify_paths()[:2]
    if not any(paths):
        _load_bundled(context)


def _load_bundled(context: ssl.SSLContext) -> None:
    try:
        import certifi
    except ModuleNotFoundError:
        return
    context.load_verify_locations(certifi.where())
