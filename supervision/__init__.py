"""OTP-style supervision for Pykka actors."""
