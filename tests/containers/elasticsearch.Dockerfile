# Stands in for docker.elastic.co/elasticsearch/elasticsearch: the same paths, user and start. Its context is the
# distribution that deploy/elasticsearch installs, as `home`, and the entrypoint.
ARG BASE
FROM ${BASE}
# Debian's package of Java fails without a folder of manual pages, which the base has not.
RUN mkdir -p /usr/share/man/man1 && apt-get update -q \
    && apt-get install --yes -q --no-install-recommends openjdk-17-jre-headless tini curl
COPY --chown=1000:0 home /usr/share/elasticsearch
COPY --chmod=755 elasticsearch-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN install -d -o 1000 -g 0 /usr/share/elasticsearch /usr/share/elasticsearch/data \
    && printf 'cluster.name: docker-cluster\nnetwork.host: 0.0.0.0\n' > /usr/share/elasticsearch/config/elasticsearch.yml
ENV ES_JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64
WORKDIR /usr/share/elasticsearch
USER 1000:0
