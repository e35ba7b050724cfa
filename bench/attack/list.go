package attack

// Attack is a row of the table.
type Attack struct {
	Name  string
	Knows string // beside the address
	Rate  int    // packets a second
	Does  string // what the client does
	CC    bool   // both ends have congestion control
	Idle  int    // devices of the server's address that do nothing
	CE    bool   // the attacker's packets are marked with CE

	make func(*forger) maker
}

// What a client does.
const (
	transfers = "transfer" // WRITEs of 64 KiB, eight at a time, on one connection
	dials     = "dial"     // a connection after the other
	idles     = "idle"     // one READ of 1 MiB, and then nothing
)

const (
	idleDevices = 30
	// readBytes is the READ that is asked for again.
	readBytes = 1 << 20
)

const (
	nothing = "nothing"
	number  = "queue pair number"
	all     = "number, key, address"
	path    = "sees packets"
)

// attacks are all of them, in the order of the table.
func attacks() []Attack {
	return []Attack{
		{Name: "packets for a queue pair that is not there", Knows: nothing, Rate: 20_000, Does: transfers,
			make: (*forger).nobody},
		{Name: "packets with a wrong ICRC", Knows: number, Rate: 20_000, Does: transfers, make: (*forger).damaged},
		{Name: "WRITE, any PSN", Knows: all, Rate: 20_000, Does: transfers, make: (*forger).write},
		{Name: "READ of 1 MiB, any PSN", Knows: all, Rate: 20_000, Does: transfers, make: (*forger).read},
		{Name: "ACK, any PSN", Knows: number, Rate: 20_000, Does: transfers, make: (*forger).ack},
		{Name: "NAK for a sequence error, any PSN", Knows: number, Rate: 20_000, Does: transfers,
			make: (*forger).nakSequence},
		{Name: "NAK that ends a connection, any PSN", Knows: number, Rate: 50_000, Does: transfers,
			make: (*forger).nakFatal},
		{Name: "DREQ, any communication IDs", Knows: number, Rate: 10_000, Does: transfers, make: (*forger).dreq},
		{Name: "CNP, congestion control on", Knows: number, Rate: 5_000, Does: transfers, CC: true,
			make: (*forger).cnp},
		{Name: "CNP, congestion control on", Knows: number, Rate: 20_000, Does: transfers, CC: true,
			make: (*forger).cnp},
		{Name: "WRITE with CE, any PSN, congestion control on", Knows: number, Rate: 20_000, Does: transfers,
			CC: true, CE: true, make: (*forger).write},
		{Name: "REJ, any communication IDs, 30 idle devices", Knows: nothing, Rate: 1_000, Does: transfers,
			Idle: idleDevices, make: (*forger).rej},
		{Name: "REJ, any communication IDs, 30 idle devices", Knows: nothing, Rate: 10_000, Does: dials,
			Idle: idleDevices, make: (*forger).rej},
		{Name: "REQ from 50 addresses", Knows: nothing, Rate: 1_000, Does: dials, make: (*forger).req},
		{Name: "REQ from 50 addresses", Knows: nothing, Rate: 10_000, Does: dials, make: (*forger).req},
		{Name: "REQ, and REJ for it, from 50 addresses", Knows: nothing, Rate: 10_000, Does: dials,
			make: (*forger).reqRej},
		{Name: "SIDR_REQ from 50 addresses", Knows: nothing, Rate: 10_000, Does: dials, make: (*forger).sidrReq},
		{Name: "a READ of 1 MiB, sent again", Knows: path, Rate: 1_000, Does: idles, make: (*forger).readAgain},
	}
}
