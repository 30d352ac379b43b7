"""Which server the runtime asks: the settings' word, parsed once for each epoch."""

from __future__ import annotations

import pytest

from honcho_actors.honcho.endpoint import BadEndpoint, Endpoint
from honcho_actors.runtime.io import EndpointInForce
from honcho_actors.settings import Settings, SettingsCell

PUBLIC = "http://192.0.2.7:8000"
"""An address that is set aside for documentation: public by its range, and never anybody's."""


@pytest.mark.parametrize(("allowed", "made"), [(False, BadEndpoint), (True, Endpoint)])
def test_plain_http_to_a_public_address_is_refused_unless_the_settings_allow_it(allowed: bool, made: type) -> None:
    cell = SettingsCell(Settings(base_url=PUBLIC, allow_public_http=allowed))
    assert isinstance(EndpointInForce(cell)(), made)
