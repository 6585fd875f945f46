#!/usr/bin/env bash
# Starts ZooKeeper in the image of ./build-image, configured by the variables of
# the official image that the compose files use.
set -euo pipefail

config=/conf/zoo.cfg
{
    echo dataDir=/data
    echo "tickTime=${ZOO_TICK_TIME:-2000}"
    echo "initLimit=${ZOO_INIT_LIMIT:-5}"
    echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
    echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
    echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
    echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-true}"
    echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
    # Both are lists of words; a "*" among them is no file name.
    set -f
    for line in ${ZOO_SERVERS:-"server.1=localhost:2888:3888;2181"} ${ZOO_CFG_EXTRA:-}; do
        echo "$line"
    done
} >"$config"
echo "${ZOO_MY_ID:-1}" >/data/myid

# shellcheck disable=SC2086 # JVMFLAGS is a list
exec java ${JVMFLAGS:-} -XX:+UseSerialGC \
    -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
