import socket

import pytest

from pixconnect.platform.http import listening
from pixconnect.platform.http.listening import ListeningError


def test_all_sockets_share_one_free_port() -> None:
    sockets = listening.open_listening("127.0.0.1", 0, 3, port_setting="PORT")
    assert len({one.getsockname() for one in sockets}) == 1
    for one in sockets:
        one.close()


def test_a_port_that_somebody_shares_generously_is_still_taken() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ListeningError, match=f"port {port} of 127.0.0.1 is taken: .* set PORT"):
            listening.open_listening("127.0.0.1", port, 1, port_setting="PORT")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ListeningError, match=r"cannot listen on 192\.0\.2\.1"):
        listening.open_listening("192.0.2.1", 0, 1, port_setting="PORT")


def test_a_reserved_port_is_kept_for_the_child_and_callers_are_refused_meanwhile() -> None:
    reserved = listening.reserve_port("127.0.0.1", 0, port_setting="PORT")
    address = reserved.getsockname()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with socket.socket() as child:
            child.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            child.bind(address)
            child.listen()
            socket.create_connection(address).close()
            with pytest.raises(ListeningError, match="is taken"):
                listening.reserve_port("127.0.0.1", address[1], port_setting="PORT")
    reserved.close()
