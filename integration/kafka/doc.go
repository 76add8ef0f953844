// Package kafka runs real Apache Kafka for tests: it fetches the broker's jars with Maven, boots KRaft
// clusters of one or more nodes on 127.0.0.1, and kills, freezes and restarts them.
//
// It shares no code with the bridge. Nothing but Java 17 and Maven is needed, and Maven only the first
// time: the jars stay in $KAFKA_LIBS or in the user's cache folder.
//
// A test uses StartT; a developer's own small program uses Start and Close.
package kafka
