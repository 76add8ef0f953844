package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

var errPortTaken = errors.New("port taken")

// Ports lie below Linux' ephemeral range (32768 and up). From inside it, the port of a broker that was killed
// could be given to any outgoing connection, even to a client's own attempt to reach the dead broker (a TCP
// self-connect), and the restart on the same port would fail.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePort returns a port on 127.0.0.1 nobody listens on now, outside the range of outgoing connections.
func FreePort() (int, error) {
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// freePorts returns n different ports nobody listens on now.
func freePorts(n int) ([]int, error) {
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("kafka: no %d free ports between %d and %d", n, firstPort, lastPort)
}
