// Package proxy is a TCP proxy between Kafka clients and brokers that understands Kafka's frames, for tests of what a
// bad network does. One Network has a Listen (or Serve) per broker; the broker must advertise the proxy's address
// (kafka.Options.Proxied). Rules act on frames, by API key and direction:
//
//	n := proxy.New()
//	defer n.Close()
//	for _, b := range cluster.Nodes() {
//		err := n.Listen(b.ID, b.ProxiedAddr(), b.ProxiedUpstream())
//	}
//	held := n.Add(proxy.Rule{
//		Keys:      []kmsg.Key{kmsg.EndTxn},
//		Direction: proxy.Request,
//		Match:     proxy.When(func(r *kmsg.EndTxnRequest) bool { return r.Commit }),
//		Times:     1,
//		Action:    proxy.Hold,
//		Fired:     func(*proxy.Frame) { kill the bridge },
//	})
//	err := held.Wait(ctx) // until it has fired
//	held.Remove()         // the commit arrives now, although its sender is dead
//
// A cut of the whole network is a rule without keys that holds; nothing is lost then, everything arrives when it is
// removed, as TCP does. Break closes every connection.
//
// Not understood: TLS, and SASL below version 1 of SaslHandshake (its tokens have no header).
package proxy
