"""Answers questions from a collection, by any chat model of LangChain, and shows where each statement comes from.

pip install './clients/python[langchain]' langchain-openai

    from langchain_openai import ChatOpenAI
    from rag_langchain import answer
    from retrieval_client import Client
    from retrieval_client.adapters.langchain import GatewayRetriever

    client, model = Client("http://127.0.0.1:8000"), ChatOpenAI(model="…")
    retriever = GatewayRetriever(client=client, collection="demo", pipeline="hybrid-rerank")
    print(answer("How do I mend a bent wheel?", retriever, model))
"""

import re
from dataclasses import dataclass

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever

PROMPT = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            "Answer from the numbered passages alone. After each statement cite its passages, like [1][2]. "
            "If the passages hold no answer, say so.\n\n{passages}",
        ),
        ("human", "{question}"),
    ]
)
CITATION = re.compile(r"\s?\[(\d+)\]")


@dataclass(frozen=True)
class CitedAnswer:
    """The model's words, and the documents that they cite by number."""

    text: str
    sources: dict[int, Document]

    def __str__(self) -> str:
        sources = (f"[{number}] {one.metadata['hit-title'] or one.id}" for number, one in self.sources.items())
        return "\n".join([self.text, "", *sources])


def answer(question: str, retriever: BaseRetriever, model: BaseChatModel) -> CitedAnswer:
    """Has the model answer from what the retriever finds. Numbers that it made up are taken out."""
    documents = retriever.invoke(question)
    if not documents:
        return CitedAnswer("Nothing was found about this.", {})
    numbered = {str(number): document for number, document in enumerate(documents, start=1)}
    passages = "\n\n".join(
        f"[{number}] {one.metadata['hit-title']}\n{one.page_content}" for number, one in numbered.items()
    )
    said = (PROMPT | model | StrOutputParser()).invoke({"question": question, "passages": passages})
    text = CITATION.sub(lambda cited: cited[0] if cited[1] in numbered else "", said)
    cited = sorted({int(number) for number in CITATION.findall(text)})
    return CitedAnswer(text, {number: numbered[str(number)] for number in cited})
