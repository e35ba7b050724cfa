package perftest

// Defaults and bounds of the originals, which users of their command lines rely on.
const (
	defaultSizeBW     = 65536 // bytes
	defaultSizeLat    = 2     // bytes
	sizeAtomic        = 8     // bytes
	maxSizeAll        = 8 << 20
	maxSize           = 1<<31 - 1
	defaultIters      = 1000
	defaultItersWrite = 5000 // write_bw
	minIters          = 5    // two results are cut off as outliers, one is lost to the difference
	maxIters          = 100_000_000
	defaultTxDepth    = 128
	maxTxDepth        = 15000
	defaultRxDepth    = 512
	maxRxDepth        = 16384
	maxRxDepthUC      = 16000 // UC and UD post this many at most by default
	defaultCQMod      = 100
	maxCQMod          = 1024
	cqModSizeLimit    = 8192 // bytes: larger messages are signalled one by one
	maxQPs            = 16384
	defaultQPTimeout  = 14
	defaultRetryCount = 7
	rnrRetryForEver   = 7
	minRNRTimer       = 12         // 0.64 ms
	defaultQKey       = 0x11111111 // UD
	maxPeakIters      = 20000      // beyond, the peak is not looked for

	// maxPeakSamples bounds the search for the peak, which is quadratic.
	maxPeakSamples = 1 << 16

	// pollBatch is how many completions are taken at once.
	pollBatch = 16

	pageSize      = 4096 // bytes, the default "cycle buffer"
	cacheLineSize = 64   // bytes

	// Bounds of what a peer may ask for in the exchange of these two.
	maxCycleBuffer   = 1 << 24 // bytes: a 16 MiB page is the largest anywhere
	maxCacheLineSize = 4096

	// grhBytes precede the payload in the receive buffer of a UD QP.
	grhBytes = 40
)
