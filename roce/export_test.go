package roce

// Serving reports whether a call of Serve has begun: Shutdown and Close end what is served, and a
// server that is nowhere yet has nothing to end.
func Serving(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners) > 0
}
