mod transfer;
