"""The walkthrough docs/apps/rag_langchain.py with a chat model that says what a test gave it."""

import os

from langchain_core.language_models import FakeListChatModel
from rag_langchain import answer

from retrieval_client import Client
from retrieval_client.adapters.langchain import GatewayRetriever

KEY = os.environ["GATEWAY_API_KEY"]


class ReadingModel(FakeListChatModel):  # type: ignore[misc]  # of an environment of its own
    read: list[str] = []

    def _call(self, messages, *args, **kwargs):
        self.read.extend(message.content for message in messages)
        return super()._call(messages, *args, **kwargs)


def retriever(k):
    return GatewayRetriever(client=Client(os.environ["GATEWAY"], key=KEY), collection="c", pipeline="bm25", k=k)


def test_an_answer_names_the_documents_that_it_cites():
    model = ReadingModel(responses=["It is seven [1], surely [9]. See [3][1]."])
    given = answer("word 7", retriever(3), model)
    assert given.text == "It is seven [1], surely. See [3][1]."
    assert list(given.sources) == [1, 3]
    assert given.sources[1].id == "d07"
    assert str(given).splitlines()[:3] == [given.text, "", "[1] d07"]
    passages, question = model.read
    assert "[1] \nword 7\n\n[2] " in passages
    assert question == "word 7"


def test_a_model_is_not_asked_about_nothing():
    given = answer("zebra", retriever(3), ReadingModel(responses=["It is [1]."]))
    assert (given.text, given.sources) == ("Nothing was found about this.", {})
