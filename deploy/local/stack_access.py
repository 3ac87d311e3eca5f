"""Opens a stack's own processes for `make`: with the authority and the key that its processes have."""

import os
import ssl
import urllib.request

from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.errors import EvaluationError


def access_to(choices: Choices) -> GatewayAccess:
    """Returns the key and the authority of a stack's gateway. Raises StackProblem."""
    try:
        with replaced_environment({**os.environ, **choices.environment()}):
            return read_access()
    except EvaluationError as error:
        raise StackProblem(str(error)) from error


def opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Returns what opens URLs without a proxy: the addresses are local."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
