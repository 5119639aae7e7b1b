# Host rules at length; included by the Makefile.

.PHONY: host-kills

## host-kills: `host apply` killed at 20 points of its way, and undone
host-kills:
	TAUTLINE_KILL_POINTS=20 $(CARGO) test --locked -p tautline --test commands killed:: -- kill_9 --nocapture
