package client

import (
	"log/slog"
	"time"
)

// The client's logger gets one line for each change of state. Package discovery
// writes those about membership, health, names, models and metrics,
// middleware.Log what becomes of calls, and this file the rest.

// logAside returns what logs that an endpoint is set aside because it fails,
// and that it gets requests again.
func logAside(l *slog.Logger) func(endpoint string, d time.Duration) {
	return func(endpoint string, d time.Duration) {
		if d == 0 {
			l.Info("endpoint gets requests again", "endpoint", endpoint)
			return
		}
		l.Warn("endpoint is set aside", "endpoint", endpoint, "for", d.Round(time.Millisecond))
	}
}

func logStrategy(l *slog.Logger, was, is Strategy) {
	if was != is {
		l.Info("strategy changed", "from", string(was), "to", string(is))
	}
}
