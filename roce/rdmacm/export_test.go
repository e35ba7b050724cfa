package rdmacm

// MaxRdAtomic is a limit that tests compare with.
const MaxRdAtomic = maxRdAtomic
